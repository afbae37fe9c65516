"""moao/batched.h: each function of the header is called with right arguments, then with each one wrong in turn. The message has
to name it by the position and the name that it has in the declaration, and no matrix may be touched."""
import ctypes
import os
import re
import sys
import unittest
from ctypes import c_char, c_double, c_float, c_int, c_int64, c_uint64, c_void_p

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT  # noqa: E402

BUILD = os.path.dirname(MOAO)
COUNT, ROOM, OK, INPUT = 3, 100, 0, 2
LD, STRIDE = 9, 90
# what stands for an argument; sizes differ, so that exchanged ones are found
LETTERS = {"uplo": b"L", "side": b"R", "trans": b"T", "transa": b"N", "transb": b"T", "diag": b"N", "jobu": b"U", "jobv": b"U",
           "job": b"R", "kind": b"R"}
SIZES = {"m": 7, "n": 5, "k": 4, "nrhs": 3, "over": 1, "power": 1, "most": 5, "count": COUNT, "seed": 1}
TYPES = {"char": c_char, "int64_t": c_int64, "int": c_int, "uint64_t": c_uint64, "double": c_double, "float": c_float}


def functions():
    """name: [(type, name) of each argument], of the header."""
    with open(os.path.join(ROOT, "src/linalg/include/moao/batched.h"), encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    found = {}
    for name, inside in re.findall(r"MOAO_PUBLIC moao_status (\w+)\((.*?)\);", text, re.S):
        found[name] = [re.match(r"(.*?)(\w+)$", " ".join(a.split())).groups() for a in inside.split(",")]
    return found


class Call:
    """Right arguments of a function, in memory of this process: the CPU's."""

    def __init__(self, library, name, arguments):
        self.f = getattr(library, name)
        self.real = c_double if name.startswith("moao_d") else c_float
        self.arguments, self.kept, self.matrices = arguments, [], []
        self.f.argtypes = [self.type_of(a) for a, _ in arguments]
        self.values = [self.value(kind.strip(), n) for kind, n in arguments]

    @staticmethod
    def type_of(kind):
        return c_void_p if "*" in kind else TYPES[kind.strip().replace("const ", "")]

    def value(self, kind, name):
        if name == "ctx":
            return None
        if "*" not in kind:
            if kind == "char":
                return LETTERS[name]
            return 1 if name in ("alpha", "beta") else 0.01 if name == "tol" else SIZES.get(
                name, LD if name.startswith("ld") else STRIDE)
        if "int" in kind:  # columns, ranks, info
            array = ((c_int if kind.startswith("int ") else c_int64) * COUNT)(*([2] * COUNT))
            self.kept.append(array)
            return ctypes.addressof(array)
        # entries with dominant diagonals, so that every call succeeds
        array = (self.real * (STRIDE * COUNT))(*[(4.0 if e % STRIDE % (LD + 1) == 0 else 0.1 + e % 7 / 40) for e in range(STRIDE * COUNT)])
        self.matrices.append(array)
        if "*const *" not in kind:
            return ctypes.addressof(array)
        pointers = (c_void_p * COUNT)(*[ctypes.addressof(array) + b * STRIDE * ctypes.sizeof(self.real) for b in range(COUNT)])
        self.kept.append(pointers)
        return ctypes.addressof(pointers)

    def bits(self):
        return [bytes(m) for m in self.matrices]


def wrong_values(kind, name, call, i):
    """Values that an argument must not have."""
    if kind == "char":
        return [b"x", b"\0"]
    if "*" in kind:
        values = [] if name in ("ctx", "info") or (name == "rank" and "rsvd" in call.f.__name__) else [None]
        if name in ("k", "k2", "ka", "kb", "kc"):
            values += [(c_int64 * COUNT)(1, -1, 1), (c_int64 * COUNT)(1, 1, 2 ** 62)]
        if "*const *" in kind:
            pointers = ctypes.cast(call.values[i], ctypes.POINTER(c_void_p))
            values.append((c_void_p * COUNT)(pointers[0], pointers[1], None))
        return values
    if name.startswith("ld"):
        return [-1, 0, 1, -2 ** 63]
    if name.startswith("stride"):
        matrix = next(k for k, n in call.arguments if n == name[len("stride"):])
        return [-1, -2 ** 63] + ([] if matrix.startswith("const") else [0, 1])
    if name in ("alpha", "beta", "seed"):
        return []
    if name == "tol":
        return [-1.0, float("nan")]
    if name == "over":
        return [10 ** 6, 2 ** 63 - 1]
    if name == "power":
        return [-1, 3]
    return [-1, -2 ** 63] + ([] if name == "count" else [2 ** 63 - 1])


class Batched(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(BUILD, "flags"), encoding="utf-8") as f:
            if "-fsanitize" in f.read():
                raise unittest.SkipTest("a library with sanitizers is not for this Python")
        cls.library = ctypes.CDLL(os.path.join(BUILD, "libmoao_linalg.so"))
        cls.library.moao_status_message.restype = ctypes.c_char_p

    def message(self):
        text = self.library.moao_status_message().decode()
        self.library.moao_status_clear()
        return text

    def test_header(self):
        """Every routine comes in both precisions, by strides and by pointers."""
        names = set(functions())
        self.assertEqual(len(names), 4 * 25)
        routines = {re.sub(r"^moao_[ds]|_strided_batched$|_batched$", "", n) for n in names}
        self.assertEqual(names, {"moao_%s%s_%sbatched" % (p, r, s) for p in "ds" for r in routines for s in ("", "strided_")})

    def test_right(self):
        """With right arguments each one succeeds and writes."""
        for name, arguments in functions().items():
            call = Call(self.library, name, arguments)
            before = call.bits()
            self.assertEqual((call.f(*call.values), self.message()), (OK, ""), name)
            self.assertNotEqual(before, call.bits(), name)

    def test_wrong(self):
        """Each wrong argument is named; nothing is written."""
        asked = 0
        for name, arguments in functions().items():
            call = Call(self.library, name, arguments)
            before = call.bits()
            for i, (kind, argument) in enumerate(arguments):
                for value in wrong_values(kind.strip(), argument, call, i):
                    values = list(call.values)
                    values[i] = ctypes.addressof(value) if isinstance(value, ctypes.Array) else value
                    status, text = call.f(*values), self.message()
                    self.assertEqual(status, INPUT, "%s, %s = %r" % (name, argument, value))
                    self.assertRegex(text, r"^%s: argument %d \(%s\) (is|has) [^\n]+ is expected$" % (name, i + 1, argument))
                    self.assertEqual(before, call.bits(), name)
                    asked += 1
        self.assertGreater(asked, 2000)

    def test_values(self):
        """The message has the value and what is possible, from the sizes of the call."""
        call = Call(self.library, "moao_dgeqrf_batched", functions()["moao_dgeqrf_batched"])
        for i, value, text in ((4, 3, "argument 5 (lda) is 3, at least 7 is expected"), (1, -2, "argument 2 (m) is -2, 0 to 4000000 is expected"),
                               (7, -1, "argument 8 (count) is -1, at least 0 is expected")):
            values = list(call.values)
            values[i] = value
            self.assertEqual((call.f(*values), self.message()), (INPUT, "moao_dgeqrf_batched: " + text))
        call = Call(self.library, "moao_sgesvj_strided_batched", functions()["moao_sgesvj_strided_batched"])
        values = list(call.values)
        values[1], values[3], values[4] = b"q", 600, 600
        self.assertEqual((call.f(*values), self.message()),
                         (INPUT, "moao_sgesvj_strided_batched: argument 2 (jobu) is 'q', one of N U S is expected"))
        values[1] = b"N"
        self.assertEqual((call.f(*values), self.message()),
                         (INPUT, "moao_sgesvj_strided_batched: argument 5 (n) is 600, 0 to 512 is expected"))


if __name__ == "__main__":
    unittest.main()
