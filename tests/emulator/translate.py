#!/usr/bin/env python3
"""Makes C++ for the emulator of a CUDA source: instructions in assembly become calls of tests/emulator/device.h, and
dynamic shared memory the emulator's; other shared memory has its bits set before a block uses it. usage: translate.py SOURCE RESULT

The rest of the source stays as it is, line by line, so that messages and debuggers show its lines."""
import re
import sys

ASSEMBLY = re.compile(r'\basm(?: volatile)?\((?:[^;"]|"[^"]*")*\);')
SHARED = re.compile(r"extern __shared__ __align__\(16\) ((?:unsigned )?char) (\w+)\[\];")
PLAIN = re.compile(r"extern __shared__ (\w+) (\w+)\[\];")
# of a fixed size: its bits are set by the first thread of a block that comes there
STATIC = re.compile(r"(?<!extern )(?<!#define )\b(__shared__ [^;=]*?(\w+)(?:\s*\[[^;=]*\])?;)")
LAUNCH = re.compile(r"(\w+(?:<[^;]*?>)?)\s*<<<([^;]*?)>>>\(([^;]*?)\);")
# Orders and hints: one thread runs at a time and copies arrive at once, so there is nothing to do.
NOTHING = ("cp.async.commit_group", "cp.async.wait_group", "griddepcontrol", "prefetch.global")


def operand(constraint, text):
    """The variable of the first operand with this constraint, e.g. p of "l"(p)."""
    return re.search(re.escape(constraint) + r"\((\w+)\)", text).group(1)


def call(match):
    """C++ for one asm statement. An instruction that is not known becomes one that does not compile."""
    text = match.group(0)
    name = re.search(r'"([^"%;]*)', text).group(1).strip()
    lines = "\n" * text.count("\n")
    if not name or name.startswith(NOTHING):
        return ";" + lines
    if name.startswith(("rsqrt.approx.ftz", "rcp.approx.ftz")):
        out = operand('"=d"' if name.endswith("f64") else '"=f"', text)
        of = operand('"d"' if name.endswith("f64") else '"f"', text)
        return "%s = emulator::%s_approx(%s);%s" % (out, name.split(".")[0], of, lines)
    if name.startswith("mma.sync.aligned.m16n8k8.row.col.f64"):
        fragments = re.findall(r'"\+?d"\((\w+)\[0\]\)', text)  # c, a, b
        return "emulator::tensor(%s);%s" % (", ".join(fragments), lines)
    if name.startswith("mma.sync.aligned.m8n8k4.row.col.f64"):
        return "emulator::tensor_quarter(%s, %s, %s);%s" % (
            re.search(r'"\+d"\((\w+)\[0\]\)', text).group(1), *re.findall(r'"d"\((\w+)\)', text), lines)
    if name.startswith("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"):
        fragments = re.findall(r'"\+?[fr]"\((\w+)(?:\[0\]|\.x)\)', text)  # c, a, b
        return "emulator::tensor_fp16(%s, &%s.x, %s);%s" % (*fragments, lines)
    if name.startswith("bar.sync"):
        return "emulator::meet_part(%s, %s);%s" % (operand('"r"', text), operand('"n"', text), lines)
    if name.startswith("ldmatrix.sync.aligned.m8n8.x4."):
        to = re.search(r'"=r"\((\w+)(\[0\]|\.x)\)', text)
        row = re.search(r"__cvta_generic_to_shared\((\w+)\)", text).group(1)
        target = to.group(1) if to.group(2) == "[0]" else "&%s.x" % to.group(1)
        transposed = "true" if ".trans." in name else "false"
        return "emulator::load_matrices(%s, %s, %s);%s" % (target, row, transposed, lines)
    if name.startswith(("cp.async.ca.shared.global", "cp.async.cg.shared.global")):
        size = re.search(r'"n"\((sizeof\(\w+\))\)', text) or re.search(r"%1\], (\d+);", text)
        to = re.search(r"__cvta_generic_to_shared\((\w+)\)", text)
        used = re.search(r'%1\], 16, %2;.*"l"\(\w+\), "r"\((\w+)\)', text, re.DOTALL)
        if used and to:
            return "emulator::copy_async(%s, %s, 16, %s);%s" % (to.group(1), operand('"l"', text), used.group(1), lines)
        if size and to:
            return "emulator::copy_async(%s, %s, %s);%s" % (to.group(1), operand('"l"', text), size.group(1), lines)
    return 'static_assert(sizeof(char) == 0, "the emulator does not know %s");%s' % (name.split(" ")[0], lines)


def launch(match):
    """A launch; one with dynamic shared memory says which kernel it is, whose limit holds."""
    kernel, shape, arguments = match.groups()
    depth, parts = 0, [""]
    for c in shape:
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    which = "NULL" if len(parts) < 3 or parts[2].strip() == "0" else "(const void *)%s" % kernel
    return "emulator::launch([&] { %s(%s); }, %s, %s);" % (kernel, arguments, which, shape)


def translate(text):
    text = ASSEMBLY.sub(call, text)
    text = LAUNCH.sub(launch, text)
    for pattern in (SHARED, PLAIN):
        text = pattern.sub(r"\1 *const \2 = (\1 *)::emulator::shared_memory;", text)
    return STATIC.sub(r"\1 ::emulator::set_bits(&\2, sizeof \2);", text)


def main():
    source, result = sys.argv[1:3]
    with open(source, encoding="utf-8") as f:
        text = '#line 1 "%s"\n' % source + translate(f.read())
    with open(result, "w", encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    main()
