"""What takes too long for the tests: thousands of files, hundreds of edits, builds that are killed.

``make soak`` runs it, more than ten minutes on two cores. Each part says in its docstring what it
does; several read pages again by a parser that shares nothing with the generator.
"""

import argparse
import hashlib
import io
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import tokenize
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path
from zipfile import ZipFile

from pylit.addresses import module_url
from pylit.build import Builder
from pylit.diagnostics import Report, Severity
from pylit.site.options import Options
from pylit.site.outcome import Outcome
from pylit.site.pool import cores
from pylit.source.discover import decode, discover

ROOT = Path(__file__).parents[1]
WORD = re.compile(r"[A-Za-z]{4,}")
#: In notes these are more than words: formulas, addresses, raw HTML, fields of reStructuredText,
#: admonitions.
MORE = re.compile(r"[$\\<>`\]]|://|^\s*(?:[.:]|!!!|\?\?\?)|&\w+;|^\s*[-=~^\"'+*#|]{2,}")


#: Code within a paragraph stands for one sign.
CODE = "\1"
INLINE = {"pre", "code", "script", "style", "samp"}
BLOCKS = {"p", "li", "dt", "dd", "td", "h1", "h2", "h3", "h4"}


class Page(HTMLParser):
    """A page as a reader has it: lines of code by their numbers, all text, and its paragraphs."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[tuple[int, str]] = []
        self.text: list[str] = []
        self.blocks = [""]
        self._skip = self._code = 0
        self._line = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag in INLINE
        if tag in BLOCKS:
            self.blocks.append("")
        found = re.fullmatch(r"L(\d+)", dict(attrs).get("id") or "")
        if tag == "i" and found:
            self.lines.append((int(found[1]), ""))
            self._line, self._skip = True, 1
        elif self._skip or tag == "samp":
            self._skip += 1

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in INLINE
        if self._skip:
            self._skip -= 1
        elif tag in ("code", "pre"):
            self._line = False

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        self.blocks[-1] += CODE if self._code else data
        if self._line and not self._skip:
            number, text = self.lines[-1]
            self.lines[-1] = (number, text + data)


#: Behind these a string that stands alone is a note.
BEGINS = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT}


def notes(text: str) -> set[int]:
    """The lines that may be notes: comments and strings that stand alone; all if Python fails."""
    found: set[int] = set()
    begins = True
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            string = token.type == tokenize.STRING and begins
            if token.type == tokenize.COMMENT or string:
                found.update(range(token.start[0], token.end[0] + 1))
            begins = token.type in BEGINS or string or token.string == ":"
    except (tokenize.TokenError, SyntaxError):
        return set(range(text.count("\n") + 2))
    return found


def check_page(text: str, page: str) -> list[str]:
    """What is wrong with the page of a source."""
    read, faults = Page(page), []
    numbers = [number for number, _ in read.lines]
    if numbers != sorted(set(numbers)):
        faults.append("lines are doubled or out of order")
    lines = text.split("\n")
    for number, shown in read.lines:
        # HTML has no null, and a browser would turn a lone carriage return into a line's end.
        if shown.removesuffix("\n") != lines[number - 1].replace("\0", "\u2400"):
            faults.append(f"line {number} is {shown!r}")
    missing = {n for n, line in enumerate(lines, 1) if line.strip()} - set(numbers)
    if lost := missing - notes(text):
        faults.append(f"lines {sorted(lost)[:5]} are code and are lost")
    words = set(WORD.findall(" ".join(read.text)))
    for numbers_of_note in together(sorted(missing)):
        note = [lines[number - 1] for number in numbers_of_note]
        for number, line in zip(numbers_of_note, note, strict=True):
            # Between two dollar signs, words are a formula.
            left = not MORE.search(line) and not any("$" in other for other in note)
            if left and not set(WORD.findall(line)) <= words:
                faults.append(f"words of line {number} are lost: {line.strip()!r}")
    return faults


def together(numbers: list[int]) -> Iterator[list[int]]:
    """Numbers that follow each other."""
    for _, group in groupby(enumerate(numbers), lambda one: one[1] - one[0]):
        yield [number for _, number in group]


def settings(sources: list[Path], folder: Path, **more: object) -> Options:
    given = {"out": folder / "site", "cache": folder / "cache", "jobs": cores()} | more
    return Options(root=ROOT, sources=tuple(sources), **given)  # type: ignore[arg-type]


def built(sources: list[Path], folder: Path, **more: object) -> Outcome:
    """One build without errors."""
    with Builder(settings(sources, folder, **more)) as builder:
        return finished(builder)


def finished(builder: Builder) -> Outcome:
    outcome = builder.build()
    errors = [str(d) for d in outcome.report if d.severity is Severity.ERROR]
    assert not errors, "\n".join(errors[:5])
    return outcome


def run(*command: object, **more: object) -> "subprocess.CompletedProcess[str]":
    """What a program of Python says that ends well."""
    given = {"capture_output": True, "text": True, "cwd": ROOT} | more
    done = subprocess.run([sys.executable, *map(str, command)], **given)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done  # type: ignore[no-any-return]


def package_of(name: str, folder: Path) -> Path:
    """A copy of a package of the standard library."""
    return shutil.copytree(Path(sysconfig.get_path("stdlib"), name), folder / name)


def tree(folder: Path) -> dict[str, str]:
    """Every file with a digest of its content."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def check_site(source: Path, site: Path) -> int:
    """Check the pages of a source against it; how many lines there are."""
    lines, faults = 0, []
    for one in discover(source, own=False, report=Report()):
        page = site / module_url(one)
        text, _ = decode(one.path.read_bytes())
        lines += text.count("\n")
        if os.path.isfile(page):  # noqa: PTH113 - False for a name that no file can have
            faults += [f"{one.display}: {f}" for f in check_page(text, page.read_text("utf-8"))]
    assert not faults, "\n".join(faults[:20])
    return lines


def library(count: int, choose: random.Random, into: Path) -> None:
    """Copy so many files of the standard library and of what is installed."""
    paths = sysconfig.get_paths()
    found = []
    for top in (Path(paths["stdlib"]), Path(paths["purelib"])):
        for path in sorted(top.rglob("*.py")):
            inside = path.relative_to(top)
            if top.name == "site-packages" or "site-packages" not in inside.parts:
                found.append((path, Path(top.name) / inside))
    for path, place in choose.sample(found, min(count, len(found))):
        (into / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, into / place)


def many_files(folder: Path, choose: random.Random, count: int) -> str:
    """Thousands of files that nobody here wrote: each line is on its page, once, in order."""
    library(count, choose, folder / "source")
    outcome = built([folder / "source"], folder)
    lines = check_site(folder / "source", folder / "site")
    return f"{outcome.pages:,} pages with {lines:,} lines: none is lost, doubled or out of order"


def edit(package: Path, choose: random.Random) -> None:
    """Something that an author might do, or an editor."""
    files = sorted(package.rglob("*.py"))
    path = choose.choice(files)
    lines = path.read_text("utf-8").split("\n")
    at = choose.randrange(len(lines))
    kind = choose.randrange(9)
    if kind == 0:
        lines.insert(at, "# A note, with `JSONDecoder` and $x^2$.")
    elif kind == 1:
        del lines[at : at + choose.randrange(1, 4)]
    elif kind == 2:
        lines[at] += "  # behind"
    elif kind == 3:
        lines[at:at] = [f"def added_{at}(x):", f'    """Return {at}."""', f"    return {at}", ""]
    elif kind == 4:
        lines = [line.replace("decode", choose.choice(["decode", "read"])) for line in lines]
    elif kind == 5:
        lines[at:at] = ['"""', f"## A heading {at}", '"""']
    elif kind == 6 and len(files) > 4:
        path.unlink()
        return
    elif kind == 7:
        path = path.with_name(f"new_{at}.py")
    path.write_text("\n".join(lines), encoding="utf-8")


def edits(folder: Path, choose: random.Random, count: int) -> str:
    """After each of many edits the site is that of a clean build."""
    package = package_of("json", folder)
    with Builder(settings([package], folder, jobs=1, serving=True)) as warm:
        for turn in range(count):
            edit(package, choose)
            # In the process of a server, and in one of its own.
            if turn % 2:
                finished(warm)
            else:
                built([package], folder, jobs=1)
            shutil.rmtree(folder / "clean/cache/pages", ignore_errors=True)
            shutil.rmtree(folder / "clean/site", ignore_errors=True)
            built([package], folder / "clean", jobs=1)
            same = tree(folder / "site") == tree(folder / "clean/site")
            assert same, f"edit {turn} leaves traces"
    return f"{count} edits: each site is that of a clean build, byte for byte"


def begun(package: Path, folder: Path) -> "subprocess.Popen[bytes]":
    """A build in a process of its own."""
    command = [sys.executable, ROOT / "build_site.py", "build", package, "--jobs", "2"]
    command += ["--out", folder / "site", "--cache", folder / "cache"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kills(folder: Path, choose: random.Random, count: int) -> str:
    """Builds that are killed leave the old site, or whole files of the old and the new one."""
    package = package_of("wsgiref", folder)
    start = time.monotonic()
    assert begun(package, folder).wait() == 0
    seconds, mixed = time.monotonic() - start, 0
    old = {name: {digest} for name, digest in tree(folder / "site").items()}
    for turn in range(count):
        for path in sorted(package.glob("*.py")):
            path.write_text(f"{path.read_text('utf-8')}\n# Turn {turn}.\n", encoding="utf-8")
        built([package], folder / "clean", jobs=1)
        new = tree(folder / "clean/site")
        if turn % 2:
            shutil.rmtree(folder / "cache", ignore_errors=True)
        child = begun(package, folder)
        time.sleep(choose.random() * seconds)
        child.send_signal(signal.SIGKILL)
        child.wait()
        left = {p: d for p, d in tree(folder / "site").items() if not p.startswith(".pylit-")}
        for name, digest in left.items():
            assert digest in {*old.get(name, ()), new.get(name)}, f"{name} is neither old nor new"
        mixed += len({digest == new.get(name) for name, digest in left.items()}) == 2
        if choose.random() < 0.3:
            assert begun(package, folder).wait() == 0
            assert tree(folder / "site") == new, "a build after a kill is not that of a clean one"
            old = {name: {digest} for name, digest in new.items()}
        else:
            for name, digest in left.items():
                old.setdefault(name, set()).add(digest)
    assert begun(package, folder).wait() == 0
    assert tree(folder / "site") == tree(folder / "clean/site")
    return (
        f"{count} kills: every file was whole, {mixed} while files moved; the next build is right"
    )


def side_by_side(folder: Path, choose: random.Random, count: int) -> str:
    """Builds of the same folder at the same time."""
    package = package_of("email", folder)
    for turn in range(count):
        edit(package, choose)
        children = [begun(package, folder) for _ in range(2)]
        assert [child.wait() for child in children] == [0, 0]
        built([package], folder / "clean")
        assert tree(folder / "site") == tree(folder / "clean/site"), f"turn {turn}"
    return f"{count} times two builds at once: the site is that of one"


def odd_files() -> Iterator[tuple[str, str | bytes]]:
    """Files that nobody should write, by name."""
    note = '"""\n{}\n"""\nx = 1\n'
    formulas = (
        r"\toggle{a}{b}\endtoggle \mathtip{a}{b} \char\"110000 \frac{ \unknown \def\a{\a\a}\a"
    )
    formulas += (
        r" \begin{array}{*{100000000}{c}}\end{array} \class{NCM-x}{x} \href{javascript:a(1)}{x}"
    )
    nested = ["{" * 400 + "}" * 400, r"\sqrt{" * 1000 + "}" * 1000]
    for number, formula in enumerate([*formulas.split(), *nested]):
        yield f"formula{number}", note.format(f"A formula ${formula}$ in a note.")
    yield "empty", ""
    yield "blank", "\n\n \n\t\n"
    yield "no_newline", "x = 1"
    yield "nulls", "x = 1\n# null\0\ny = 2\n"
    yield "mark", b"\xef\xbb\xbfx = 1\n# A note.\n"
    yield "latin", b"# coding: latin-1\n# caf\xe9 au lait\nx = '\xe9'\n"
    yield "lies", b"# coding: utf-8\n# caf\xe9 au lait\nx = 1\n"
    yield "unknown_coding", b"# coding: klingon\nx = 1\n"
    yield "utf16", "x = 1\n".encode("utf-16")
    yield "crlf", b"x = 1\r\n# A note.\r\ny = 2\r\n"
    yield "returns", b"x = 1\r# A note.\ry = 2\r"
    yield "feeds", "x = 1\n\f\n# A note.\x0b\ny = '\u2028\u2029\x85'\n"
    yield "long_line", f"x = '{'a' * 1_000_000}'\ny = 2\n"
    yield "long_list", f"x = [{', '.join('1' * 50_000)}]\n"
    yield "many_lines", "x = 1\n" * 60_000
    yield "many_comments", "# A note.\n\nx = 1\n" * 5_000
    yield "comments_only", "# One.\n#\n# Two.\n" * 2_000
    yield "headings", note.format("## Same\n\n" * 5_000)
    yield "details", note.format("<details>\n" * 4_000)
    yield "paragraph", note.format("word " * 300_000)
    yield "emphasis", note.format("*a **b _c " * 20_000)
    yield "links", note.format("[a](" * 10_000 + "[" * 10_000)
    yield "quotes", note.format("> " * 5_000 + "deep")
    yield "lists", note.format("\n".join("  " * n + "- deep" for n in range(500)))
    yield "table", note.format("|a" * 2_000 + "|\n" + "|-" * 2_000 + "|\n" + "|1" * 2_000 + "|")
    yield "scripts", note.format("<script>alert(1)</script> <img src=x onerror=alert(1)>")
    yield "entities", "x = '</code></pre><script>alert(1)</script>&amp;&lt;'\n# </div> --> ]]>\n"
    yield "unclosed", '"""A note that never ends\nx = 1\n'
    yield "brackets", "x = " + "(" * 5_000 + "\n"
    yield "nested", "x = " + "[" * 90 + "]" * 90 + "\n"
    yield "sums", "x = " + "+".join(["1"] * 20_000) + "\n"
    yield "deep", "\n".join(" " * n + "if 1:" for n in range(99)) + "\n" + " " * 99 + "x = 1\n"
    yield "elifs", "if a: pass\n" + "elif b: pass\n" * 2_000
    yield "tabs", "if 1:\n\tx = 1\n        y = 2\n"
    yield "indent", "  x = 1\n y = 2\n"
    yield "names", "def ünïcödé(ａ, ª):\n    # A note.\n    return 𝕏\n" + f"{'n' * 5_000} = 1\n"
    yield "strings", "x = f'{f\"{1!r:>{2}}\"}' rb'\\x00' '''\n# no note\n''' # behind\n"
    yield "match", "match x:\n    case {'a': [1, *_]} | None if y: # behind\n        pass\n"
    yield "python2", "print 'hello'\nexec 'x'\n# A note.\n"
    yield "continued", "x = 1 + \\\n    2\n# A note \\\ny = 3\n" * 100
    yield "decorators", "@a\n" * 2_000 + "class A:\n    '''A note.'''\n"
    yield "private_use", note.format("\ue0000\ue001 \ue002picture x\ue003 \ud7ff")


def odd(folder: Path, _: random.Random, __: int) -> str:
    """Files that nobody should write have pages with all their lines, in bounded time."""
    package = folder / "odd"
    package.mkdir(parents=True)
    files = dict(odd_files())
    for name, text in files.items():
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        (package / f"{name}.py").write_bytes(data)
    (package / f"{'n' * 251}.py").write_text("x = 1\n")
    (package / "v1..2").mkdir()
    (package / "v1..2/a.py").write_text("x = 1\n")
    (package / "loop").symlink_to(package)
    start = time.monotonic()
    outcome = built([package], folder)
    assert outcome.pages >= len(files)
    check_site(package, folder / "site")
    for page in (folder / "site").rglob("*.html"):
        assert "<script>alert" not in page.read_text("utf-8"), f"{page} runs a script of its source"
    return f"{len(files)} odd files in {time.monotonic() - start:.0f} s: all lines are there"


#: Packages as PyPI has them, the folders that they install, and what may be left of the notation of
#: their docstrings: fields and roles, and titles of sections that run on into a sentence. What is
#: left are slips of their authors, such as ```:func:`name´ ```.
PACKAGES = {
    "click==8.5.1": ("click", 0, 0),
    "flax==0.12.8": ("flax", 0, 2),
    "networkx==3.6.1": ("networkx", 0, 1),
    "rich==15.0.0": ("rich", 0, 0),
    "scikit-image==0.26.0": ("skimage", 2, 1),
}
FIELD = re.compile(
    r"(?<![\w:]):(?:param|parameter|arg|key|keyword|kwarg|type|var|ivar|cvar|raises?|returns?"
    rf"|rtype|yields?)\b[^:\n]*:(?!:)|:[a-z][\w+:-]*:[`{CODE}]"
)
SECTION = re.compile(
    r"\A\s*(?:Arg(?:ument)?s|Param(?:eter)?s|Keyword [Aa]rg(?:ument)?s|Attributes|Returns?|Raises"
    rf"|Yields?)\s*(?::|-{{3,}})\s+[^\s{CODE}]"
)


class Skipped(Exception):
    """What a part needs cannot be had."""


def wheel(package: str) -> Path:
    """A package from PyPI, or from the cache."""
    cached = ROOT / ".cache/soak"
    name = package.replace("-", "_").replace("==", "-")
    if not any(cached.glob(f"{name}-*.whl")):
        # It is read, not run: one file will do for all systems.
        options = ["--no-deps", "--only-binary", ":all:", "--python-version", "3.11"]
        for platform in ("manylinux_2_28_x86_64", "manylinux2014_x86_64"):
            options += ["--platform", platform]
        options += ["--retries", "0"]
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", cached, package]
        done = subprocess.run(command, capture_output=True, text=True)
        if "(from versions: none)" in done.stderr:
            raise Skipped(f"{package} is not in .cache/soak, and PyPI cannot be reached")
        assert not done.returncode, done.stderr
    return next(cached.glob(f"{name}-*.whl"))


def unpack(package: str, root: Path) -> None:
    """Put what a package installs into a folder."""
    with ZipFile(wheel(package)) as packed:
        packed.extractall(root)


def packages(folder: Path, _: random.Random, __: int) -> str:
    """Packages as they are: `init` and `build` do, run nothing, and leave no notation."""
    pages = 0
    for package, (top, *most) in PACKAGES.items():
        root = folder / top
        unpack(package, root)
        ran = root / "ran"
        (root / top / "runs.py").write_text(f"open({str(ran)!r}, 'w')\n")
        run("-m", "pylit", "init", top, cwd=root)
        run("-m", "pylit", "build", "--cache", folder / "cache", cwd=root)
        assert not ran.exists(), f"{package} was imported"
        texts = [page.read_text("utf-8") for page in (root / "site").rglob("*.html")]
        blocks, pages = [one for text in texts for one in Page(text).blocks], pages + len(texts)
        for pattern, allowed in zip((FIELD, SECTION), most, strict=True):
            left = [block for block in blocks if pattern.search(block)]
            assert len(left) <= allowed, f"{package}: {left}"
    return f"{len(PACKAGES)} packages, {pages} pages: nothing ran, no field or role is raw"


#: Forty packages of different styles.
STYLES = """
    aiohttp==3.14.5 attrs==26.1.0 beartype==0.23.1 black==26.10.1 boto3==1.44.8 cattrs==26.2.1
    click==8.5.1 cryptography==50.0.2 dask==2026.8.0 django==5.2.19 docstring-parser==0.18.0
    docutils==0.23 einops==0.8.2 equinox==0.13.8 fastapi==0.165.0 flask==3.1.3 httpx==0.28.1
    hypothesis==6.170.17 idna==3.20 jaxtyping==0.3.11 jinja2==3.1.6 markdown-it-py==4.3.0
    more-itertools==11.2.1 mypy==2.4.1 packaging==26.4 pillow==13.0.0 pluggy==1.7.0
    pydantic==2.14.4 pytest==9.2.0 requests==2.34.2 returns==0.30.0 sphinx==9.0.4
    starlette==1.10.0 tomlkit==0.15.2 tornado==6.6.1 tqdm==4.70.1 typer==0.29.2 urllib3==2.8.0
    wcwidth==0.9.4 xarray==2026.9.0
"""


def styles(folder: Path, _: random.Random, count: int) -> str:
    """Packages of many styles are built, each page of them; and `importlib` of Python itself."""
    library, pages = folder / "importlib==3", 0
    package_of("importlib", library)
    for package in [library.name, *STYLES.split()[:count]]:
        root = folder / package
        if root != library:
            unpack(package, root)
        made = (".dist-info", ".data", ".libs")
        tops = [top.name for top in sorted(root.iterdir()) if top.suffix not in made]
        tops = [top for top in tops if any((root / top).rglob("*.py"))]
        build = ["build", *tops, "--out", "site", "--verbose", "--cache", folder / "cache"]
        said = run("-m", "pylit", *build, cwd=root, timeout=600).stderr
        assert "Traceback" not in said and "[page-failed]" not in said, said
        pages += len([*(root / "site").rglob("*.html")])
        shutil.rmtree(root)
    return f"{count} packages of many styles, {pages} pages: each page is made"


def changes(folder: Path, random_: random.Random, count: int, **variables: str) -> str:
    """What a user changes has its effect, or both kernel and reference raise."""
    first = 1000 + random_.randrange(10**6)
    given = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = run("tests/labml_nn/changes.py", first, count, env=os.environ | given | variables)
    return done.stdout.splitlines()[-1]


def sanitizer(folder: Path, random_: random.Random, count: int) -> str:
    """The same with kernels that are compiled to notice every access out of bounds."""
    compiler = os.environ.get("CXX", "c++")
    # Where the second is missing, the first cannot pass on exceptions of PyTorch.
    options = [f"-print-file-name={name}" for name in ("libasan.so", "libstdc++.so")]
    found = [subprocess.check_output([compiler, each], text=True).strip() for each in options]
    variables = {
        "CXX": f"{compiler} -fsanitize=address -fno-omit-frame-pointer -g",
        "XDG_CACHE_HOME": str(folder),
        "LD_PRELOAD": " ".join(found),
        # Python itself frees little at its end.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
    }
    return changes(folder, random_, count, **variables)


def sweep(folder: Path, _: random.Random, __: int) -> str:
    """What ``make test`` leaves out: every submodule, model, page and width of the tests it has."""
    said = run("-m", "pytest", "-q", "-m", "sweep", "-n", "auto").stdout
    return f"the tests that go over everything: {said.splitlines()[-1]}"


#: The oldest PyTorch that `setup.py` allows, and the newest.
TORCH = (re.findall(r"torch>=([\d.]+)", (ROOT / "setup.py").read_text("utf-8"))[0], "")


def versions(folder: Path, _: random.Random, count: int) -> str:
    """The tests of the library with several versions of PyTorch, each in its own environment."""
    tried = []
    for version in TORCH[:count]:
        wanted = f"torch=={version}.*" if version else "torch"
        python = folder / wanted / "bin/python"
        subprocess.run([sys.executable, "-m", "venv", folder / wanted], check=True)
        needed = [wanted, "--editable", f"{ROOT}[test]", "--editable", ROOT / "pylit"]
        got = subprocess.run([python, "-m", "pip", "install", "--quiet", *needed])
        if got.returncode:
            raise Skipped(f"{wanted} cannot be had")
        # Our notes on PyTorch are about recent versions.
        notes = [] if version else ["tests/docs_src/test_torch_notes.py"]
        say = "import torch; print(torch.__version__)"
        tried.append(subprocess.check_output([python, "-c", say], text=True).strip())
        command = [python, "-m", "pytest", "-q", "-n", "auto", "tests/labml_nn", *notes]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, f"PyTorch {tried[-1]}: {done.stdout[-4000:]}"
    return f"the tests of the library pass with PyTorch {' and '.join(tried)}"


PARTS: dict[str, tuple[Callable[[Path, random.Random, int], str], int]] = {
    "odd": (odd, 0),
    "edits": (edits, 200),
    "kills": (kills, 50),
    "together": (side_by_side, 5),
    "files": (many_files, 3000),
    "packages": (packages, 0),
    "styles": (styles, len(STYLES.split())),
    "changes": (changes, 500),
    "sanitizer": (sanitizer, 100),
    "sweep": (sweep, 0),
    "versions": (versions, len(TORCH)),
}


def main() -> None:
    """Run all parts, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, help="how often, or how many files")
    given = parser.parse_args()
    for name in given.parts or PARTS:
        run, count = PARTS[name]
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            os.environ.setdefault("OMP_NUM_THREADS", "1")
            try:
                said = run(Path(folder), random.Random(given.seed), given.count or count)
            except Skipped as why:
                said = f"SKIPPED: {why}"
        print(f"{name}: {said} ({time.monotonic() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
