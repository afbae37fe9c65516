#!/usr/bin/env python3
"""Manual pages of the library of linear algebra from its public headers.

    scripts/make-man3.py DIR HEADER...

DIR gets moao_NAME.3 for each header NAME.h, and a page for each function and type in it that leads there: `man moao_dgesvj_batched`.
What a page says is what the header's comments say.
"""
import os
import re
import sys


def plain(text):
    """Text as roff shows it."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def blocks(text):
    """(comment, declarations) one after another; the first is what the header says of itself."""
    text = re.sub(r"#ifdef __cplusplus.*?#endif\n", "", text, flags=re.S)
    text = re.sub(r"^#(?!define MOAO_\w+ +\S|define MOAO_\w+\()(?:[^\n]*\\\n)*[^\n]*\n", "", text, flags=re.M)
    parts = re.split(r"^(/\*.*?\*/)\n", text, flags=re.S | re.M)
    found = [["", parts[0].strip()]]
    for comment, code in zip(parts[1::2], parts[2::2]):
        found.append([comment, code.strip("\n")])
    return found[1:] if not found[0][1] else found


def paragraphs(comment):
    """A comment's text: paragraphs, and an item where a line begins with a dash."""
    lines = [re.sub(r"^ \* ?|^/\* ?", "", line) for line in comment[:-2].rstrip().split("\n")]
    lines = [re.sub(r"^-+ (.*?) -+$", r"\1", line.strip()) for line in lines]
    out = [".PP"]
    for line in lines:
        if not line:
            out.append(".PP")
        elif line.startswith("- "):
            out += [".IP \\(bu 2", plain(line[2:])]
        elif not set(line) <= set("-"):
            out.append(plain(line))
    return out


def declarations(code):
    code = re.sub(r"\s*__attribute__\(\((?:[^()]|\([^()]*\))*\)\)|^MOAO_PUBLIC ", "", code, flags=re.M)
    return [".PP", ".nf"] + [plain(line) for line in code.split("\n")] + [".fi"]


def page(name, text, see):
    """One header, and the names that it declares."""
    found = blocks(text)
    head = " ".join(re.sub(r"^/\*|\*/$|^ \*", "", line).strip() for line in found[0][0].split("\n"))
    lines = [".TH MOAO_%s 3 \"\" \"moao\"" % plain(name.upper()), ".SH NAME",
             "moao_%s \\- %s" % (plain(name), plain(re.split(r"[.:;](?: |$)", head)[0].strip())),
             ".SH SYNOPSIS", ".B #include <moao/%s.h>" % plain(name), ".PP", "Link with the flags of pkg\\-config \\-\\-libs moao\\-linalg.",
             ".SH DESCRIPTION"]
    for i, (comment, code) in enumerate(found):
        lines += paragraphs(comment) if comment else []
        if i == 0:
            lines.append(".SH DECLARATIONS")
        lines += declarations(code) if code else []
    lines += [".SH SEE ALSO", ",\n".join(".BR moao_%s (3)" % plain(s) for s in see if s != name)]
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    names = set(re.findall(r"^MOAO_PUBLIC [^;(]*?\b(\w+)\s*[(;,]|^typedef [^;{]*?\(?\*?\b(moao_\w+)\)?(?:\([^;]*\))?;|^\} (moao_\w+);", code, re.M))
    return "\n".join(lines) + "\n", {n for some in names for n in some if n}


def main(folder, headers):
    os.makedirs(folder, exist_ok=True)
    pages = {os.path.basename(h)[:-2]: h for h in headers}
    owners = {"moao_" + name for name in pages}
    for name, path in sorted(pages.items()):
        with open(path, encoding="utf-8") as f:
            text, names = page(name, f.read(), sorted(pages))
        with open(os.path.join(folder, "moao_%s.3" % name), "w", encoding="utf-8") as f:
            f.write(text)
        for other in sorted(names - owners):
            with open(os.path.join(folder, other + ".3"), "w", encoding="utf-8") as f:
                f.write(".so man3/moao_%s.3\n" % name)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    main(sys.argv[1], sys.argv[2:])
