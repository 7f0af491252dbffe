from hypothesis import given
from hypothesis import strategies as st

from store.formats.core.export_format import Node, TreeBranch, branches


def ways(*nodes: Node, current: str = "") -> list[tuple[str, int, int]]:
    """Return the branches: the ids of their own nodes in one word, the base, how many are shared."""
    found = branches(nodes, current)
    return [("".join(nodes[at].id or "?" for at in branch.nodes), branch.base, branch.shared) for branch in found]


def test_one_that_has_no_branches_is_one_way() -> None:
    assert ways(Node("a", ""), Node("b", "a"), Node("c", "b"), current="c") == [("abc", -1, 0)]
    assert branches([]) == [TreeBranch([])]


def test_the_way_to_the_current_node_comes_first() -> None:
    nodes = (Node("r", ""), Node("a", "r", 1), Node("b", "r", 2), Node("x", "a", 3), Node("y", "b", 9))
    assert ways(*nodes, current="x") == [("rax", -1, 0), ("by", 0, 1)]
    assert ways(*nodes, current="y") == [("rby", -1, 0), ("ax", 0, 1)]
    assert ways(*nodes) == [("rby", -1, 0), ("ax", 0, 1)]


def test_a_current_node_in_the_middle_ends_the_way() -> None:
    nodes = (Node("r", ""), Node("a", "r"), Node("b", "a"), Node("c", "b"))
    assert ways(*nodes, current="a") == [("ra", -1, 0), ("bc", 0, 2)]


def test_branches_of_branches_go_on_to_the_latest() -> None:
    nodes = (
        Node("r", ""),
        Node("a", "r"),
        Node("b", "r"),
        Node("c", "b", 5),
        Node("d", "b", 7),
        Node("e", "d"),
        Node("f", "c"),
    )
    assert ways(*nodes, current="a") == [("ra", -1, 0), ("bde", 0, 1), ("cf", 1, 2)]


def test_what_is_no_part_of_the_tree_stays_where_it_stood() -> None:
    nodes = (Node("", ""), Node("r", ""), Node("", ""), Node("", ""), Node("a", "r"), Node("", ""))
    assert ways(*nodes, current="a") == [("?r??a?", -1, 0)]
    assert ways(Node("a", "b"), Node("b", "a"), Node("r", "")) == [("abr", -1, 0)]
    assert ways(Node("r", ""), Node("r", ""), Node("a", "r")) == [("rra", -1, 0)]


def test_several_roots_are_conversations_of_their_own() -> None:
    assert ways(Node("a", ""), Node("b", "gone"), Node("c", "a"), current="c") == [("ac", -1, 0), ("b", -1, 0)]


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh?"), st.integers(0, 3)), max_size=12),
    st.sampled_from("abcdefgh"),
)
def test_every_node_is_in_one_branch_and_follows_what_it_names(told: list[tuple[str, str, int]], current: str) -> None:
    nodes = [Node(*one) for one in told]
    found = branches(nodes, current)
    assert sorted(at for branch in found for at in branch.nodes) == list(range(len(nodes)))
    last = {node.id: at for at, node in enumerate(nodes)}
    whole: list[list[int]] = []
    for at, branch in enumerate(found):
        assert -1 <= branch.base < at
        assert branch.nodes or at == 0
        before = whole[branch.base][: branch.shared] if branch.base >= 0 else []
        assert len(before) == branch.shared
        if at:
            parent = last.get(nodes[branch.nodes[0]].parent, -1)
            assert parent == (before[-1] if before else -1)
        whole.append(before + branch.nodes)


def test_deep_and_broad_trees_take_no_recursion() -> None:
    deep = [Node(str(at), str(at - 1)) for at in range(50_000)]
    for nodes in (deep, deep[::-1]):
        assert [len(branch.nodes) for branch in branches(nodes)] == [50_000]
    assert branches(deep, "49999") == branches(deep) == [TreeBranch(list(range(50_000)))]
    broad = [Node("r", ""), *(Node(str(at), "r") for at in range(5_000))]
    assert len(branches(broad)) == 5_000
