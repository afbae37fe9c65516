"""The page of moao lab over HTTP, by tornado: on the loopback alone, for those who know its token.

Every request has to name this host, come from its own page where a browser says where from, and carry the token, in the address of
the page or in a header of its requests. No path of a request is a path of a file: there are the page and the questions of `routes`.
"""
import asyncio
import atexit
import hmac
import html
import json
import os
import re
import secrets
import signal
import threading
from typing import Any, Dict, List, Optional

import tornado.httpserver
import tornado.netutil
import tornado.web

from .case import Case
from .lab import Lab, Settings
from .reading import MoaoError
from .view import for_script

HOST = "127.0.0.1"
PORT = 8770       # the first that is tried; the next ones where it is taken
PORTS = 100
BODY = 1 << 18    # most bytes of a request
HEADER = "X-Moao-Token"
HERE = os.path.dirname(os.path.abspath(__file__))
FRAMES = "http://127.0.0.1:* http://localhost:*"  # pages of notebooks that may hold this one


def _page(facts: Dict[str, Any], nonce: str) -> str:
    """lab.html with the script, the facts and the nonce in their places."""
    put = {"NONCE": nonce, "TITLE": html.escape(facts["title"]), "DATA": for_script(facts)}
    for name in ("lab.html", "lab.js"):
        with open(os.path.join(HERE, name), encoding="utf-8") as f:
            put[name] = f.read()
    put["SCRIPT"] = put["lab.js"]
    return re.sub("@(NONCE|TITLE|DATA|SCRIPT)@", lambda m: put[m.group(1)], put["lab.html"])


class Handler(tornado.web.RequestHandler):
    """What all requests have in common: who may ask, and answers in JSON."""

    def initialize(self, server: "Server"):
        self.server = server

    def set_default_headers(self):
        self.clear_header("Server")
        for name, value in (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
                            ("Cross-Origin-Resource-Policy", "same-origin"), ("Content-Security-Policy", "default-src 'none'")):
            self.set_header(name, value)

    def prepare(self):
        hosts = ["%s:%d" % (h, self.server.port) for h in (HOST, "localhost")]
        origin = self.request.headers.get("Origin")
        given = self.request.headers.get(HEADER) or (self.get_query_argument("token", "") if self.request.path == "/" else "")
        if self.request.headers.get_list("Host") not in ([h] for h in hosts):
            raise tornado.web.HTTPError(403, "not the host of this page")
        if origin is not None and origin != "http://" + self.request.host:
            raise tornado.web.HTTPError(403, "a request of another page")
        if not hmac.compare_digest(given.encode(), self.server.token.encode()):
            raise tornado.web.HTTPError(403, "without the token: open the address that moao lab printed")

    def write_error(self, status_code, **kw):
        error = kw.get("exc_info", (None, None))[1]
        known = isinstance(error, tornado.web.HTTPError) and status_code < 500
        said = error.log_message if known and error.log_message else self._reason
        self.finish({"errors": [{"key": None, "text": said}]})

    def log_exception(self, typ, value, tb):
        if not isinstance(value, tornado.web.HTTPError):
            super().log_exception(typ, value, tb)

    def asked(self) -> Dict[str, Any]:
        """The request's JSON."""
        try:
            tree = json.loads(self.request.body or b"{}", parse_constant=lambda word: None)
        except (ValueError, RecursionError):
            tree = None
        if not isinstance(tree, dict):
            raise tornado.web.HTTPError(400, "expected an object of JSON")
        return tree

    def settings(self, tree: Dict[str, Any]) -> Settings:
        values, order, profile = tree.get("values", {}), tree.get("order", 0), tree.get("profile", 0)
        if not isinstance(values, dict) or type(order) is not int or type(profile) is not int or not 2 <= order <= 1000 or profile < 0:
            raise tornado.web.HTTPError(400, "expected values, order and profile")
        return Settings(values, order, profile)


class Page(Handler):
    """The page itself."""

    def get(self):
        nonce = secrets.token_urlsafe(16)
        self.set_header("Content-Security-Policy", "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; "
                        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors %s"
                        % (nonce, nonce, FRAMES if self.server.framed else "'none'"))
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(_page(self.server.lab.describe(), nonce))


class Question(Handler):
    """One question of the page: POST with JSON; the answer is JSON too. Mistakes of parameters are answers as well, with their keys."""

    def initialize(self, server: "Server", answer: str):
        super().initialize(server)
        self.answer = answer

    async def post(self):
        if not self.request.headers.get("Content-Type", "").startswith("application/json"):
            raise tornado.web.HTTPError(415, "expected application/json")
        try:
            found = await getattr(self, self.answer)(self.asked())
        except MoaoError as e:
            found = {"errors": [{"key": m.key, "text": str(m)} for m in e.mistakes]}
        self.finish({"superseded": True} if found is None else found)

    async def change(self, tree):
        return await self.server.lab.preview(self.settings(tree))

    async def psf(self, tree):
        x, y, wave = (tree.get(k) for k in ("x", "y", "wave"))
        if not all(isinstance(v, (int, float)) and abs(v) < 1e6 for v in (x, y)) or type(wave) is not int:
            raise tornado.web.HTTPError(400, "expected x, y and wave")
        return await self.server.lab.image(float(x), float(y), wave)

    async def compare(self, tree):
        return await self.server.lab.compare()

    async def export(self, tree):
        return {"text": await self.server.lab.export(self.settings(tree), tree.get("small") is True)}

    async def run(self, tree):
        return await self.server.lab.real.start(self.settings(tree))

    async def progress(self, tree):
        return self.server.lab.real.state

    async def stop(self, tree):
        return self.server.lab.real.stop()


class Nothing(Handler):
    """Everything else."""

    def get(self, *unused):
        raise tornado.web.HTTPError(404, "no such page")

    post = put = delete = head = options = patch = get


class Server:
    """A lab on a port of the loopback: `url` is the address of its page, with the token.

    port: None takes the first that is free from PORT on. framed: whether a notebook's page may hold it. MoaoError when the port is
    taken. Made in the event loop that serves it."""

    def __init__(self, lab: Lab, port: Optional[int] = None, framed: bool = False):
        self.lab, self.framed, self.token = lab, framed, secrets.token_urlsafe(24)
        sockets = self._bind(port)
        self.port = sockets[0].getsockname()[1]
        questions = ("change", "psf", "compare", "export", "run", "progress", "stop")
        routes: List[Any] = [("/", Page, {"server": self})]
        routes += [("/api/" + q, Question, {"server": self, "answer": q}) for q in questions]
        app = tornado.web.Application(routes + [(".*", Nothing, {"server": self})], log_function=lambda handler: None)
        self.http = tornado.httpserver.HTTPServer(app, max_body_size=BODY, idle_connection_timeout=600)
        self.http.add_sockets(sockets)
        self.url = "http://%s:%d/?token=%s" % (HOST, self.port, self.token)

    @staticmethod
    def _bind(port: Optional[int]):
        for p in [port] if port is not None else list(range(PORT, PORT + PORTS)) + [0]:
            try:
                return tornado.netutil.bind_sockets(p, HOST)
            except OSError as e:
                reason = e.strerror
            except OverflowError:
                reason = "no such port"
        raise MoaoError("port %s of this machine: %s" % (port, reason))

    async def close(self):
        self.http.stop()
        await self.lab.close()
        await self.http.close_all_connections()


async def started(lab: Lab, port: Optional[int], framed: bool = False) -> Server:
    """A server of the lab; where none can be, the lab is closed."""
    try:
        return Server(lab, port, framed)
    except BaseException:
        await lab.close()
        raise


def serve(case: Case, port: Optional[int] = None, output: Optional[str] = None, ready=None) -> None:
    """Serve a case until Ctrl-C, SIGTERM or SIGHUP; ready(url) is called when the page can be opened."""
    async def main():
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        server = await started(Lab(case, output), port)
        try:
            if ready is not None:
                ready(server.url)
            await stop.wait()
        finally:
            await server.close()
    asyncio.run(main())


class Live:
    """The page of a case in a notebook or an interactive Python, served by a thread of this process until `close`.

    url: its address, with the token; as the last line of a cell it is the page itself. case(): the case as it is on the page.
    height: of the page in a notebook [pixels]. The browser has to be on this machine."""

    def __init__(self, case: Case, port: Optional[int] = None, output: Optional[str] = None, height: int = 900):
        self.height, self._lab = int(height), Lab(case, output)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="moao-lab")
        self._thread.start()
        try:
            self._server: Optional[Server] = self._wait(started(self._lab, port, framed=True))
        except MoaoError:
            self._server = None
            self._end()
            raise
        self.url = self._server.url
        atexit.register(self.close)

    def _wait(self, coroutine, seconds: float = 30.0):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(seconds)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def case(self) -> Case:
        """A case with the parameters that the page shows."""
        return self._lab.case()

    def close(self) -> None:
        """End the page and the processes that it started."""
        if self._server is not None:
            server, self._server = self._server, None
            atexit.unregister(self.close)
            self._wait(server.close())
            self._end()

    def __repr__(self):
        return "<moao lab at %s>" % self.url if self._server is not None else "<moao lab, closed>"

    def _repr_html_(self):
        return '<p><a href="%s" target="_blank" rel="noopener">moao lab in a page of its own</a></p><iframe src="%s" width="100%%" height="%d" ' \
            'title="moao lab" style="border: 1px solid #ccc"></iframe>' % (self.url, self.url, self.height)
