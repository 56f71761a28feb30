import pytest
from linked_sources import Project, links


class TestScopes:
    @pytest.mark.parametrize(
        "body",
        [
            "def f(make): make",
            "def f(*make): make",
            "def f(*, make=1): make",
            "def f(**make): make",
            "lambda make: make",
            "[make for make in ()]",
            "{make: 1 for make in ()}",
            "def f():\n    for make in (): make",
            "def f():\n    with f() as make: make",
            "def f():\n    try: f()\n    except ValueError as make: make",
            "def f():\n    import make\n    make",
            "def f():\n    make = 1\n    make",
            "def f():\n    if (make := 1): make",
            "def f():\n    [make := 1 for _ in ()]\n    make",
            "def f():\n    del make\n    make",
            "def f():\n    make += 1",
            "def f():\n    (a, [make, *b]) = 1\n    make",
            "def f(x):\n    match x:\n        case [make, *_]: make",
            "def f(x):\n    match x:\n        case {1: 2, **make}: make",
            "def f(make):\n    def g(): make",
            "def f():\n  def g():\n    nonlocal make\n    make = 1\n  make = 2\n  make",
        ],
    )
    def test_a_local_name_hides_the_global_one(self, body):
        found = links(f"def make(): ...\n{body}")
        assert not [link for link in found if "make ->" in link]

    @pytest.mark.parametrize(
        "body",
        [
            "def f(a=make): ...",
            "def f(a: make): ...",
            "def f(make=make): ...",
            "def f() -> make: ...",
            "@make\ndef f(make): ...",
            "lambda make=make: 1",
            "[make for x in make]",
            "[make for make in make]",
            "class A:\n    make = 1\n    def f(self): make",
            "class A:\n    make = 1\n    [make for x in ()]",
            "class A:\n    def make(self): make",
            "def f():\n    def g(): make",
            "def f():\n    make\ndef g():\n    make = 1",
            "f'{make}'",
        ],
    )
    def test_a_global_name_in_sight_is_linked(self, body):
        assert [x for x in links(f"def make(): ...\n{body}") if "make -> m.make" in x]

    def test_a_class_body_runs_from_top_to_bottom(self):
        text = """
            class A:
                first: list
                def list(self) -> list: ...
                last: list
                def f(self): list
        """
        assert [x for x in links(text) if " list ->" in x] == [
            "5 list -> m.A.list",
            "6 list -> list",
        ]

    def test_global_binds_in_the_module(self):
        text = "def make(): ...\ndef f():\n    global make\n    make\n"
        assert links(text) == ["4 make -> m.make"]
        assert links(text + "    make = 1\nmake") == []

    def test_a_function_inside_a_function_is_linked_to_its_line(self):
        project = Project({"m.py": "def f():\n    def g(): ...\n    g()\n"})
        ((position, link),) = project.resolver("m.py").tokens().items()
        assert (position, link.url) == ((3, 4), "m.html#L2")

    def test_a_definition_does_not_link_to_itself(self):
        assert links("class A:\n    def f(self): ...\ndef g(): ...\nSIZE = 1") == []
