"""Graphs from what users write, and what is refused."""

import networkx as nx
import pytest

from kexpfam.graphs.structure import read_graph

NAMES = ["a", "b", "c", "d"]


def parents_of(graph):
    return {node.columns: node.parents for node in graph.nodes}


def test_in_a_full_graph_every_column_has_all_earlier_ones():
    assert parents_of(read_graph("full", NAMES)) == {
        (0,): (),
        (1,): (0,),
        (2,): (0, 1),
        (3,): (0, 1, 2),
    }


def test_in_a_markov_graph_every_column_has_the_one_before():
    assert parents_of(read_graph("markov", NAMES)) == {
        (0,): (),
        (1,): (0,),
        (2,): (1,),
        (3,): (2,),
    }


def test_in_an_independent_graph_no_column_has_parents():
    assert set(parents_of(read_graph("independent", NAMES)).values()) == {()}


def test_an_order_is_taken_by_the_named_shapes():
    graph = read_graph("markov", NAMES, order=["c", 0, "d", "b"])
    assert [node.columns for node in graph.nodes] == [(2,), (0,), (3,), (1,)]
    assert parents_of(graph)[(3,)] == (0,)


def test_exogenous_columns_are_parents_of_all_in_the_named_shapes():
    graph = read_graph("markov", NAMES, exogenous=["b"])
    assert parents_of(graph) == {(0,): (1,), (2,): (1, 0), (3,): (1, 2)}
    assert graph.exogenous == (1,)


def test_a_mapping_by_name_or_position_is_sorted_parents_first():
    by_name = read_graph({"a": ["d"], "b": "a", "c": [], "d": ["c"]}, NAMES)
    by_position = read_graph({0: [3], 1: 0, 2: [], 3: [2]}, NAMES)
    assert by_name == by_position
    assert [node.label for node in by_name.nodes] == ["c", "d", "a", "b"]


def test_negative_positions_count_from_the_end():
    graph = read_graph({0: [], 1: [], 2: [], -1: [0]}, NAMES)
    assert parents_of(graph)[(3,)] == (0,)


def test_whole_numbers_that_are_names_are_names():
    graph = read_graph({2: [], 1: [2]}, [2, 1])
    assert parents_of(graph) == {(0,): (), (1,): (0,)}


def test_a_networkx_graph_has_arrows_from_parent_to_child():
    arrows = nx.DiGraph([("a", "b"), ("a", "c"), ("c", "b"), ("b", "d")])
    graph = read_graph(arrows, NAMES)
    assert parents_of(graph) == {(0,): (), (2,): (0,), (1,): (0, 2), (3,): (1,)}


def test_blocks_are_one_node_and_can_be_parents():
    graph = read_graph({("a", "b"): [], "c": [("a", "b")], "d": ["a"]}, NAMES)
    assert parents_of(graph) == {(0, 1): (), (2,): (0, 1), (3,): (0,)}
    assert graph.parent_labels() == {"a, b": (), "c": ("a, b",), "d": ("a, b",)}


def test_exogenous_columns_may_be_parents_in_a_mapping():
    graph = read_graph({"a": ["d"], "b": ["a"], "c": []}, NAMES, exogenous="d")
    assert parents_of(graph)[(0,)] == (3,)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"a": ["b"], "b": ["c"], "c": ["a"], "d": []}, "cycle, a → c → b → a;"),
        ({"a": [], "b": ["z"], "c": [], "d": []}, "graph names column 'z'"),
        ({"a": [], "b": ["a"], "c": ["b"]}, "no entry for column 'd'"),
        ({"a": ["a"], "b": [], "c": [], "d": []}, "'a' its own parent"),
        ({("a", "b"): [], "b": [], "c": [], "d": []}, "'b' in two nodes"),
        ({("a", "b"): ["a"], "c": [], "d": []}, "'a' its own parent"),
        ({(): [], "a": [], "b": [], "c": [], "d": []}, "empty block"),
        ("tree", "graph must be one of"),
        (["a", "b"], "graph must be one of"),
        ({"a": [], "b": [], "c": [], "d": [], 7: []}, "graph names column 7"),
        (nx.Graph([("a", "b")]), "undirected"),
        (nx.DiGraph(["ab", "ba", "cd"]), "cycle, a → b → a;"),
        (nx.DiGraph([("a", "b")]), "no entry for column 'c'"),
    ],
)
def test_what_is_wrong_with_a_graph_is_named(graph, message):
    with pytest.raises(ValueError, match=message):
        read_graph(graph, NAMES)


def test_a_cycle_through_blocks_is_named():
    graph = {("a", "b"): ["c"], "c": ["a"], "d": []}
    with pytest.raises(ValueError, match=r"cycle, (a, b → c → a, b|c → a, b → c)"):
        read_graph(graph, NAMES)


def test_the_named_cycle_is_one():
    graph = {"d": ["a"], "a": ["b"], "b": ["c"], "c": ["b"]}  # d and a are not on it
    with pytest.raises(ValueError, match=r"cycle, (b → c → b|c → b → c);"):
        read_graph(graph, NAMES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"exogenous": ["z"]}, "exogenous names column 'z'"),
        ({"exogenous": NAMES}, "none is left to model"),
        ({"order": ["a", "b"]}, "order must name every modelled column once"),
        ({"order": ["a", "b", "c", "c"]}, "order must name every modelled column"),
        ({"order": ["a", "b", "c", "z"]}, "order names column 'z'"),
    ],
)
def test_what_is_wrong_with_exogenous_and_order_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        read_graph("full", NAMES, **arguments)


def test_a_mapping_takes_no_order():
    with pytest.raises(ValueError, match="leave order=None"):
        read_graph({"a": [], "b": [], "c": [], "d": []}, NAMES, order=NAMES)


def test_an_exogenous_column_has_no_entry():
    with pytest.raises(ValueError, match="'d' is exogenous, but has an entry"):
        read_graph({"a": [], "b": [], "c": [], "d": []}, NAMES, exogenous=["d"])
