#!/usr/bin/env python3
"""How fast the page of `moao lab` follows: from the drop of a star to the new map, in a headless Chromium.

  bench_lab.py [FILE] [--drops N]

Drops each natural star of a case in turn (default: params/demo.yaml, ten drops) and prints the time of each as the page sees it, their
median, the processor time of the processes that computed them and of the server, and the load of the machine; then the processor
time of a map by its order, and what a process costs that computes nothing. Needs chromium, chromedriver and python3-selenium.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOAO = os.environ.get("MOAO", os.path.join(ROOT, "build", "moao"))
TICK = os.sysconf("SC_CLK_TCK")
WATCH = """facts.automatic = 0; clearTimeout(quiet); window.times = []; let dropped = 0;
document.addEventListener("pointerup", () => { dropped = performance.now(); }, true);
new MutationObserver(() => times.push((performance.now() - dropped) / 1000)).observe(document.getElementById("map"),
    {attributes: true, attributeFilter: ["data-serial"]});"""


def browser(profile):
    o = Options()
    o.binary_location = shutil.which("chromium") or shutil.which("chromium-browser")
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--window-size=1280,800",
                 "--user-data-dir=" + profile):
        o.add_argument(word)
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=o)


def processor(pid):
    """(of a process itself, of its children that have ended) [s]."""
    with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as f:
        v = f.read().rsplit(")", 1)[1].split()
    return (int(v[11]) + int(v[12])) / TICK, (int(v[13]) + int(v[14])) / TICK


def until(driver, text, seconds=120):
    end = time.monotonic() + seconds
    while not driver.execute_script("return !!(%s)" % text):
        if time.monotonic() > end:
            sys.exit("bench_lab.py: waited in vain for " + text)
        time.sleep(0.1)


def drops(driver, n, pid):
    stars = driver.execute_script("return picks.filter(p => p.kind === 'ngs').map(p => p.key)")
    before = processor(pid)
    for k in range(n):
        way = 1 if (k // len(stars)) % 2 else -1
        node = driver.find_element("css selector", "[data-key='%s'] .halo" % stars[k % len(stars)])
        ActionChains(driver, duration=50).drag_and_drop_by_offset(node, 15 * way, 12 * way).perform()
        until(driver, "times.length > %d" % k)
        time.sleep(1.5)  # the PSF at the cursor
    times, after = driver.execute_script("return times"), processor(pid)
    print("from drop to map [s]: %s" % " ".join("%.2f" % t for t in times))
    print("median %.2f s; a map and its PSF take %.2f s of processor time in processes of moao, %.2f s in the server; load %.1f on %d cores" % (
        statistics.median(times), (after[1] - before[1]) / n, (after[0] - before[0]) / n, os.getloadavg()[0], os.cpu_count()))


def orders(driver, pid):
    for order in (6, 8, 10, 12):
        before = processor(pid)[1]
        done = driver.execute_script("const s = state.map.serial; state.order = %d; change(0); return s" % order)
        until(driver, "state.map.serial > %d" % done)
        after = processor(pid)[1]
        print("order %2d: a map takes %.2f s of processor time, %d measurements, %d nodes" % (
            order, after - before, *driver.execute_script("return [state.map.measurements, state.map.nodes]")))
        time.sleep(1.5)


def nothing():
    before = os.times()
    for _ in range(5):
        subprocess.run([MOAO, "--version"], stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    print("a process that computes nothing (moao --version): %.2f s of processor time" % (
        (after.children_user + after.children_system - before.children_user - before.children_system) / 5))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", nargs="?", default=os.path.join(ROOT, "params", "demo.yaml"))
    p.add_argument("--drops", type=int, default=10)
    a = p.parse_args()
    lab = subprocess.Popen([MOAO, "lab", a.file, "--no-browser"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        url = lab.stdout.readline().strip()
        with tempfile.TemporaryDirectory() as profile:
            driver = browser(profile)
            try:
                driver.get(url)
                until(driver, "state.map && state.image")
                driver.execute_script(WATCH)
                drops(driver, a.drops, lab.pid)
                orders(driver, lab.pid)
            finally:
                driver.quit()
        nothing()
    finally:
        lab.terminate()
        lab.wait()


if __name__ == "__main__":
    main()
