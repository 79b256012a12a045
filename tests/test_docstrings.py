"""Every public name says its types and has an example, which stands alone and prints what it says."""

from __future__ import annotations

import doctest
import inspect
import io
import re
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import distembed

PACKAGE = Path(distembed.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if ">>>" in path.read_text())
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def examples_of(thing: Any, name: str) -> list[doctest.DocTest]:
    """Return the examples of a module, a class or a function, which see no names but those that they import."""
    found = doctest.DocTestFinder(exclude_empty=True).find(thing, name, globs={})
    return [test for test in found if test.examples]


def failures(test: doctest.DocTest) -> str:
    """Return what an example printed otherwise than it says; nothing where it is right."""
    text = io.StringIO()
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=text.write)
    return text.getvalue()


@pytest.fixture(scope="module")
def finished_runs(tmp_path_factory):
    """Return the folder `runs` that the example of `distembed.run_job` makes, which other examples read."""
    folder = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert "".join(map(failures, examples_of(distembed.run_job, "run_job"))) == ""
    return folder / "runs"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_the_examples_of_a_module_print_what_they_say(path, tmp_path, monkeypatch, request):
    wrong = []
    for number, test in enumerate(examples_of(import_module(name_of(path)), name_of(path))):
        folder = tmp_path / str(number)
        if "runs/titles" in (test.docstring or ""):
            shutil.copytree(request.getfixturevalue("finished_runs"), folder / "runs")
        if test.name.endswith(".run_job"):
            continue  # the fixture has run it
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        wrong.append(failures(test))
    if text := "".join(wrong):
        pytest.fail(text, pytrace=False)


def package_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def own_methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods of a class that are ours, inherited ones too, by name."""
    for name, _ in inspect.getmembers(kind):
        home = next((base for base in kind.__mro__ if name in vars(base)), object)
        method = inspect.getattr_static(kind, name)
        is_method = inspect.isfunction(method) or isinstance(method, classmethod | staticmethod)
        if not name.startswith("_") and is_method and package_of(home) == package_of(kind):
            yield name, getattr(method, "__func__", method)


def without_example(names: dict[str, Any]) -> list[str]:
    """Return the functions, classes and methods that no example of their own, or of their class, shows."""
    things = dict(names)
    for name, thing in names.items():
        if inspect.isclass(thing):
            of_class = (inspect.getdoc(thing) or "").partition("Examples\n--------\n")[2]
            shown = {method for method, _ in own_methods(thing) if f".{method}(" in of_class}
            things |= {f"{name}.{method}": own for method, own in own_methods(thing) if method not in shown}
    return [name for name, thing in things.items() if not shows_something(inspect.getdoc(thing) or "")]


def shows_something(docstring: str) -> bool:
    """Return whether a section of examples prints something, and all of it is run."""
    _, heading, section = docstring.partition("Examples\n--------\n")
    examples = doctest.DocTestParser().get_examples(section)
    return bool(heading) and any(one.want for one in examples) and "doctest: +SKIP" not in section


def public_names() -> dict[str, Any]:
    """Return the functions and classes of `import distembed`."""
    return {name: getattr(distembed, name) for name in distembed.__all__ if name != "__version__"}


def test_every_public_name_has_an_example():
    assert without_example(public_names()) == []


def test_every_public_signature_says_its_types():
    """`mypy` also checks a program of a user: `tests/typing/program.py`."""
    functions = {name: thing for name, thing in public_names().items() if inspect.isfunction(thing)}
    for kind in filter(inspect.isclass, public_names().values()):
        functions |= {f"{kind.__name__}.{name}": method for name, method in own_methods(kind)}
        if inspect.isfunction(kind.__init__):
            functions[kind.__name__] = kind.__init__
    assert len(functions) > 100
    for name, function in functions.items():
        said, parameters = function.__annotations__, {*inspect.signature(function).parameters}
        assert parameters - {"self", "cls"} <= said.keys(), name
        assert not [kind for kind in said.values() if re.search(r"\bAny\b", str(kind))], name
