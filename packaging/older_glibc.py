"""Let a binary run with an older glibc than that of the machine which made it, where nothing but functions of libm asks for the newer one.

glibc keeps a function under its old version when it gives it a new one: exp, log, pow of 2.29 and hypot of 2.35 no longer set errno by
the rules of SVID, and are the same to rounding. A linker takes the newest. `bind` lets the entry of a binary's table of needed versions (ELF, .gnu.version_r)
that names such a version name the newest one before it under which libm has all of the functions that the binary takes from it. Nothing else
changes, no byte moves. Functions of libc are left: some came from other libraries.
"""
import functools
import re
import struct
import subprocess

LIBRARY = "libm.so.6"
OLDEST = (2, 28)  # versions up to this one are left
DYNSYM, VERNEED, VERSYM = 11, 0x6ffffffe, 0x6fffffff  # types of sections


class Elf:
    """Tables of a 64-bit little-endian ELF file, as a bytearray `data` that may be changed."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = bytearray(f.read())
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("%s: not a 64-bit little-endian ELF file" % path)
        start, = struct.unpack_from("<Q", self.data, 0x28)
        size, number = struct.unpack_from("<HH", self.data, 0x3a)
        heads = [struct.unpack_from("<IIQQQQIIQQ", self.data, start + size * i) for i in range(number)]
        # {type: (offset, size, offset of its names, what `info` says)}
        self.sections = {h[1]: (h[4], h[5], heads[h[6]][4], h[7]) for h in heads if h[1] in (DYNSYM, VERNEED, VERSYM)}
        self.strings = self.sections.get(VERNEED, (0, 0, 0, 0))[2]

    def text(self, at):
        at += self.strings
        return self.data[at:self.data.index(0, at)].decode()

    def needed(self):
        """[(library, version, its index, offset of its entry)]."""
        found, (at, _, _, files) = [], self.sections.get(VERNEED, (0, 0, 0, 0))
        for _ in range(files):
            _, entries, name, first, following = struct.unpack_from("<HHIII", self.data, at)
            aux = at + first
            for _ in range(entries):
                _, _, index, version, step = struct.unpack_from("<IHHII", self.data, aux)
                found.append((self.text(name), self.text(version), index, aux))
                aux += step
            at += following
        return found

    def symbols(self, index):
        """Names that are taken from the version of that index."""
        at, size, _, _ = self.sections[VERSYM]
        numbers = struct.unpack_from("<%dH" % (size // 2), self.data, at)
        names = self.sections[DYNSYM][0]
        return {self.text(struct.unpack_from("<I", self.data, names + 24 * i)[0]) for i, n in enumerate(numbers) if n & 0x7fff == index}


def number(version):
    """GLIBC_2.2.5 as (2, 2, 5); () for other words."""
    return tuple(int(n) for n in version[6:].split(".")) if re.fullmatch(r"GLIBC_[\d.]+", version) else ()


def name_hash(name):
    """The hash of a version's name, as ELF has it."""
    h = 0
    for c in name.encode():
        h = (h << 4) + c
        h = (h ^ (h >> 24 & 0xf0)) & 0x0fffffff
    return h


@functools.lru_cache(maxsize=None)
def offered(library):
    """{function: versions under which the library of that path has it}."""
    text = subprocess.run(["objdump", "-T", library], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    found = {}
    for version, name in re.findall(r"\(?(GLIBC_[\d.]+)\)?\s+(\w+)$", text, re.M):
        found.setdefault(name, set()).add(version)
    return found


def bind(path, library):
    """Bind a binary's functions of libm to older versions. {function: version} of what was changed. library: path of this machine's libm."""
    elf, changed = Elf(path), {}
    for name, version, index, at in elf.needed():
        taken = elf.symbols(index)
        if name != LIBRARY or not number(version) > OLDEST or not taken:
            continue
        older = set.intersection(*(offered(library).get(s, set()) for s in taken))
        older = [v for v in older if () < number(v) < number(version) and b"\0" + v.encode() + b"\0" in elf.data[elf.strings:]]
        if older:
            chosen = max(older, key=number)
            place = elf.data.index(b"\0" + chosen.encode() + b"\0", elf.strings) + 1 - elf.strings
            struct.pack_into("<I", elf.data, at, name_hash(chosen))
            struct.pack_into("<I", elf.data, at + 8, place)
            changed.update((s, chosen) for s in taken)
    if changed:
        with open(path, "r+b") as f:
            f.write(elf.data)
    return changed
