import json
import sys
from dataclasses import replace

import pytest

from regard.errors import FileError, InputError
from regard.studies.survey.files import from_json, load_survey, save_survey, to_json
from studies.survey.test_table import same, survey

SUFFIXES = [".csv", ".json", ".parquet"]


@pytest.fixture
def path(tmp_path, request):
    if request.param == ".parquet":
        pytest.importorskip("pyarrow")
    return tmp_path / f"heads{request.param}"


every_format = pytest.mark.parametrize("path", SUFFIXES, indirect=True)


@every_format
def test_a_survey_comes_back_from_disk(path):
    whole = survey()
    found = load_survey(save_survey(whole, path))
    assert found.measures == whole.measures
    same(found, whole)


@every_format
def test_surveys_from_disk_merge(path):
    one = survey()
    found = load_survey(save_survey(one, path)) + one
    assert found.rows[0]["examples"] == 14
    assert found.rows[0]["entropy"] == pytest.approx(one.rows[0]["entropy"])


def test_json_keeps_every_digit_and_what_is_of_no_head():
    whole = survey()
    found = from_json(json.loads(json.dumps(to_json(whole))))
    assert to_json(found) == to_json(whole)
    assert (found.cut, found.gaps) == (2, {"odd": "it is scripted"})


def test_a_csv_is_a_line_for_each_head(tmp_path):
    lines = save_survey(survey(), tmp_path / "heads.csv").read_text().splitlines()
    assert lines[0].startswith("site,kind,head,examples,rows,entropy,entropy_sd,evenness")
    assert (len(lines), lines[1].split(",")[:5]) == (11, ["h.0", "encoder", "0", "7", "21"])


@pytest.mark.parametrize("suffix", [".csv", ".json"])
@pytest.mark.parametrize(
    "name",
    [
        "=1+2",
        "'=1",
        "''@x",
        "-3",
        "\tx",
        "\r",
        "a\rb",
        'a"b,c\nd',
        "\0",
        "\ud800",
        "\u2028",
        "x" * 200_000,
    ],
)
def test_a_hostile_site_name_comes_back_from_disk(tmp_path, suffix, name):
    whole = replace(survey(), sites={name: next(iter(survey().sites.values()))})
    assert [*load_survey(save_survey(whole, tmp_path / f"heads{suffix}")).sites] == [name]


def test_a_spreadsheet_finds_no_formula_and_numbers_stay_numbers(tmp_path):
    whole = replace(survey(), sites={"=cmd()": next(iter(survey().sites.values()))})
    lines = save_survey(whole, tmp_path / "heads.csv").read_text().splitlines()
    assert lines[1].split(",")[:5] == ["'=cmd()", "encoder", "0", "7", "21"]


def test_parquet_refuses_what_it_cannot_store(tmp_path):
    whole = replace(survey(), sites={"\ud800": next(iter(survey().sites.values()))})
    with pytest.raises(InputError, match=r"half of a surrogate pair, .*; write .json"):
        save_survey(whole, tmp_path / "heads.parquet")


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"to end with .csv, .parquet, .json, got '.*heads.xlsx'"):
        save_survey(survey(), tmp_path / "heads.xlsx")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'regard\[survey\]', or write .csv"):
        save_survey(survey(), tmp_path / "heads.parquet")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "heads.csv"
    path.write_text("before")
    monkeypatch.setattr("csv.DictWriter.writerows", _broken)
    with pytest.raises(FileError, match=r"cannot write .*heads.csv: the disk is full"):
        save_survey(survey(), path)
    assert (path.read_text(), len(list(tmp_path.iterdir()))) == ("before", 1)


def _broken(*_):
    raise OSError(28, "the disk is full")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '{"format": "another"}', "its format is 'another'"),
        ("a.json", "[]", "is no survey that this version can read"),
        ("a.json", "{", "is no survey that this version can read"),
        ("a.csv", "site,head,entropy,entropy_sd\nx,y,1,2\n", "is no survey"),
    ],
)
def test_files_that_are_no_survey_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(FileError, match=message):
        load_survey(tmp_path / name)


def test_a_broken_parquet_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"nothing")
    with pytest.raises(FileError, match="is no survey that this version can read"):
        load_survey(tmp_path / "a.parquet")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileError, match=r"no survey '.*gone.csv'; name a file that is there"):
        load_survey(tmp_path / "gone.csv")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("measures",), 3, "expected measures to be a list, got 3"),
        (("examples",), 0.5, "expected examples to be a whole number, got 0.5"),
        (("gaps",), {"x": 3}, r"expected gaps\['x'\] to be text, got 3"),
        (("sites", "h.0"), [], r"expected sites\['h.0'\] to be an object"),
        (("sites", "h.0", "kind"), "x", "no sites.* 'x'"),
        (("sites", "h.0", "mean"), [[1.0]], "expected tables of .* measures and .* heads"),
        (("sites", "h.0", "mean"), [["x"]], r"mean\[0\]\[0\] to be a number, got 'x'"),
        (("sites", "h.0", "count"), [], "expected tables of .* measures and 0 heads"),
    ],
)
def test_wrong_types_in_a_survey_are_named(tmp_path, path, value, message):
    record = to_json(survey())
    record["sites"] = {"h.0": next(iter(record["sites"].values()))}
    inner = record
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    (tmp_path / "a.json").write_text(json.dumps(record))
    with pytest.raises(FileError, match=f"is no survey that this version can read .*{message}"):
        load_survey(tmp_path / "a.json")


@pytest.mark.parametrize(
    "content",
    [
        "site,kind,head,examples,rows\nx,encoder,0,2,\n",
        "site,kind,head,examples,rows\nx,strange,0,2,3\n",
        "site,kind,head,examples,rows,a,a_sd\nx,encoder,0,2,3,1,1e300\n",
        "site,kind,head,examples,rows,a,a_sd\nx,encoder,0,2,3,1,1,1,1\n",
        "site,kind,head,examples,rows,a,a_sd\nx,encoder,0," + "9" * 5000 + ",3,1,1\n",
    ],
)
def test_a_table_with_impossible_cells_is_refused(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(FileError, match="is no survey that this version can read"):
        load_survey(tmp_path / "a.csv")
