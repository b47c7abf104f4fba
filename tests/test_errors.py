from regard.errors import UnknownNameError, first_line


def test_an_unknown_name_suggests_the_nearest_known_one():
    message = str(UnknownNameError("mechanism", "adittive", ["additive", "dot"]))
    assert message == "no mechanism 'adittive'; did you mean 'additive'? Known: additive, dot"


def test_a_very_long_name_is_cut():
    message = str(UnknownNameError("mechanism", "x" * 10**6, ["additive"]))
    assert message == f"no mechanism '{'x' * 79}…'; Known: additive"


def test_the_first_line_of_an_error_is_its_first_line_with_text():
    assert first_line(ValueError("\n  one \n two")) == "one"
