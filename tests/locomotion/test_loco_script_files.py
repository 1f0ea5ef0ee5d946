"""Scripts as files: TOML and the XML of the thesis, and every mistake with its line."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.base import FormatError, InputError, MissingFileError
from marey.locomotion.scripts.files import load_script, parse_script, parse_xml_script, save_script, script_to_toml
from marey.locomotion.scripts.script import MAX_ELEMENTS, Action, ElementError, JumpAction, Script, Transition

TOML = """\
version = 1
name = "harbour"
rate_hz = 25
leg_length_m = 0.9

[[action]]
name = "walk 1"
speed = 1.1
seconds = 10.2
style = { s07 = 0.4 }

[[transition]]
seconds = 2.0

[[action]]
speed = 1.8
run = 1.0
turn_rate = 0.3
seconds = 4.0

[[jump]]
length_m = 1.4
kind = "run"
takeoff = [0.0, 12.5]
"""

XML = """\
<animationGenerator>
  <humanFile>human.wrl</humanFile> <dataBaseFile>db.xml</dataBaseFile>
  <frameRate>25</frameRate> <outputFile>out.wrl</outputFile>
  <action name="walk 1"> <speed>1.1</speed> <typeOfLocomotion>0.0</typeOfLocomotion> <speedAng>0.0</speedAng>
     <duration>10.2</duration> <perso id="0">0</perso> <perso id="4">0.4</perso> </action>
  <transition> <duration>2.0</duration> </transition>
  <action name="run 1"> <speed>1.8</speed> <typeOfLocomotion>1.0</typeOfLocomotion> <speedAng>0.3</speedAng>
     <duration>4.0</duration> <perso id="1">1.</perso> <perso id="2">0.7</perso> <perso id="4">0.4</perso> </action>
  <jump name="leap"> <length>1.4</length> <type>run</type> <perso id="1">1</perso> <takeoff x="0" z="12.5"/> </jump>
</animationGenerator>
"""


def test_a_time_line_is_read_in_the_order_of_the_file():
    script = parse_script(TOML)
    assert [type(e) for e in script.timeline] == [Action, Transition, Action, JumpAction]
    assert script.lines == (6, 12, 15, 21)
    assert script.timeline[0] == Action(10.2, 1.1, style={"s07": 0.4}, name="walk 1")
    assert script.timeline[3] == JumpAction(1.4, "run", takeoff=(0.0, 12.5))
    assert (script.rate_hz, script.leg_length_m, script.name) == (25.0, 0.9, "harbour")
    assert script.seconds == pytest.approx(16.2)


def test_the_printed_script_of_the_thesis_is_read():
    script = parse_xml_script(XML)
    walk, change, run, leap = script.timeline
    assert walk == Action(10.2, 1.1, style={"0": 0.0, "4": 0.4}, name="walk 1")
    assert change == Transition(2.0)
    assert run == Action(4.0, 1.8, 1.0, 0.3, style={"1": 1.0, "2": 0.7, "4": 0.4}, name="run 1")
    assert leap == JumpAction(1.4, "run", takeoff=(0.0, 12.5), style={"1": 1.0}, name="leap")
    assert script.rate_hz == 25.0
    assert script.lines == (4, 6, 7, 9)


def test_writing_and_reading_give_the_same_script(tmp_path: Path):
    script = parse_script(TOML)
    save_script(script, tmp_path / "harbour.toml")
    back = load_script(tmp_path / "harbour.toml")
    assert back.timeline == script.timeline
    assert script_to_toml(back) == script_to_toml(script)


numbers = st.floats(0.01, 100.0)
styles = st.none() | st.dictionaries(st.text(min_size=1, max_size=8), numbers, min_size=1, max_size=3)
actions = st.builds(Action, numbers, numbers, st.floats(0, 1), st.floats(-3, 3), styles, st.none() | numbers, st.text())
jumps = st.builds(JumpAction, numbers, st.sampled_from(["walk", "run", "standing"]), style=styles)


@given(timeline=st.lists(actions | jumps, min_size=1, max_size=5))
def test_any_script_survives_its_file(timeline: list[Action | JumpAction]):
    script = Script(tuple(timeline))
    back = parse_script(script_to_toml(script))
    assert back.timeline == script.timeline


def test_xml_becomes_toml():
    script = parse_script(XML, file="thesis.xml")
    assert parse_script(script_to_toml(script)).timeline == script.timeline


def test_the_first_character_tells_xml_from_toml(tmp_path: Path):
    file = tmp_path / "harbour.txt"
    file.write_text(XML, encoding="utf-8")
    assert load_script(file).timeline == parse_xml_script(XML).timeline


def test_short_spellings_are_read():
    script = parse_script('[[action]]\nspeed_mps = 1\nseconds = 1\nrun = true\nstyle = "s07"\n[[jump]]\nlength = 1.0\n')
    assert script.timeline == (Action(1.0, 1.0, 1.0, style={"s07": 1.0}), JumpAction(1.0))


BROKEN_TOML = [
    ("", 1, "empty"),
    ("[[transition]]\nseconds = 1.0\n", 1, "empty"),
    ("[[action]]\nspeed = 1.0\n", 1, "no 'seconds'"),
    ("[[action]]\nseconds = 1.0\n", 1, "no 'speed'"),
    ("[[action]]\nspeed = 1.0\nseconds = -2.0\n", 3, "'seconds' is -2.0. It must be positive"),
    ("[[action]]\nspeed = nan\nseconds = 2.0\n", 2, "not a finite number"),
    ("[[action]]\nspeed = 1.0\nseconds = inf\n", 3, "not a finite number"),
    ("[[action]]\nspeed = '1'\nseconds = 1\n", 2, "not a finite number"),
    ("[[action]]\nsped = 1.0\nseconds = 2.0\n", 2, "Did you mean 'speed'"),
    ("[[action]]\nspeed = 1\nseconds = 1\nstyle = { a = -1.0 }\n", 4, "the weight -1.0"),
    ("[[action]]\nspeed = 1\nseconds = 1\nstyle = { a = 0.0, b = 0 }\n", 4, "no weight above zero"),
    ("[[action]]\nspeed = 1\nseconds = 1\nstyle = {}\n", 4, "no weight above zero"),
    ("[[action]]\nspeed = 1\nseconds = 1\nstyle = 3\n", 4, "'style' is not a table"),
    ("[[action]]\nspeed = 1\nseconds = 1\nleg_length_m = 0\n", 4, "must be positive"),
    ("[[action]]\nspeed = 1\nseconds = 1\n[[walk]]\nspeed = 1\n", 4, "unknown key 'walk'"),
    ("[[jump]]\nlength_m = 1.0\nkind = 'hop'\n", 3, "It is one of walk, run, standing"),
    ("[[jump]]\nlength = -1.0\n", 2, "must be positive"),
    ("[[jump]]\nlength_m = 1.0\ntakeoff = [1.0]\n", 3, "not a list of 2 numbers"),
    ("[[jump]]\nlength_m = 1.0\npriority = 'now'\n", 3, "It is one of jump-parameters"),
    ("[[jump]]\nkind = 'walk'\n", 1, "no 'length_m'"),
    ("[action]\nspeed = 1.0\n", 1, "Write [[action]] with two brackets"),
    ("action = [{ speed = 1.0, seconds = 1.0 }, { speed = 2.0, seconds = 1.0 }]\n", 1, "Write each as [[action]]"),
    ("rate_hz = 0\n[[action]]\nspeed = 1\nseconds = 1\n", 1, "must be positive"),
    ("\nrate_hz = 5000\n[[action]]\nspeed = 1\nseconds = 1\n", 2, "between 1 and 1000"),
    ("\nheading_deg = nan\n[[action]]\nspeed = 1\nseconds = 1\n", 2, "not a finite number"),
    ("\nlines = [1]\n[[action]]\nspeed = 1\nseconds = 1\n", 2, "unknown key 'lines'"),
    ("\nversion = 2\n[[action]]\nspeed = 1\nseconds = 1\n", 2, "reads version 1"),
    ("[[action]]\nspeed = 1\nseconds = 1e6\n", 1, "At most 500000 frames"),
    ("[[action]]\nspeed = 1\nseconds = 1\n[[transition]]\nseconds = 1\n[[transition]]\nseconds = 1\n", 6, "in a row"),
    ("[[action]]\nspeed = 1\nseconds = 1\n[[transition]]\nseconds = 1\n[[jump]]\nlength = 1\n", 4, "its own run-up"),
    ("[[action]]\nspeed == 1\n", 2, "Correct the TOML syntax"),
    ("x = '''\n[[action]]\n'''\n[[action]]\nspeed = 1\nseconds = 1\n", 2, "not clear"),
]


@pytest.mark.parametrize(("text", "line", "words"), BROKEN_TOML)
def test_glardon_a47_a_broken_toml_script_is_refused_with_its_line(text: str, line: int, words: str):
    with pytest.raises(FormatError) as caught:
        parse_script(text, file="walk.toml")
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"walk.toml:{line}: ")


def _xml(inside: str) -> str:
    return f"<animationGenerator>\n{inside}\n</animationGenerator>"


ACTION = "<action><speed>1</speed><duration>1</duration>{}</action>"
BROKEN_XML = [
    (_xml(""), 1, "empty"),
    ("<script/>", 1, "A script is an <animationGenerator>"),
    (_xml("<actoin/>"), 2, "unknown tag <actoin>"),
    (_xml(ACTION.format("\n<sped>1</sped>")), 3, "unknown tag <sped> in a <action>"),
    (_xml("<action><speed>1</speed>\n<duration>-2</duration></action>"), 3, "<duration> is -2. It must be positive"),
    (_xml("<action><speed>nan</speed><duration>1</duration></action>"), 2, "It must be a number"),
    (_xml("<action><speed>1_0</speed><duration>1</duration></action>"), 2, "It must be a number"),
    (_xml("<action><speed>1e999</speed><duration>1</duration></action>"), 2, "It must be a number"),
    (_xml("<action><speed>1<b/></speed><duration>1</duration></action>"), 2, "It must be a number"),
    (_xml("<action><speed>1</speed></action>"), 2, "no <duration>"),
    (_xml("<action><duration>1</duration></action>"), 2, "no <speed>"),
    (_xml("<jump><type>run</type></jump>"), 2, "no <length>"),
    (_xml("<jump><length>1</length><type>hop</type></jump>"), 2, "It is one of walk"),
    (_xml("<jump><length>1</length><takeoff x='1'/></jump>"), 2, "It must be a number"),
    (_xml(ACTION.format('\n<perso id="1">-1</perso>')), 3, "Weights are zero or more"),
    (_xml(ACTION.format("<perso>1</perso>")), 2, "no id"),
    (_xml(ACTION.format('<perso id="1">1</perso><perso id="1">1</perso>')), 2, "given before"),
    (_xml(ACTION.format('<perso id="1">0</perso>')), 2, "no weight above zero"),
    (_xml(ACTION.format("\n<speed>2</speed>")), 3, "given twice"),
    (_xml("<transition><duration>1</duration><perso id='1'>1</perso></transition>"), 2, "unknown tag <perso>"),
    (_xml("<transition><duration>1</duration></transition>"), 2, "empty"),
    (_xml("\n<frameRate>0</frameRate>" + ACTION), 3, "It must be positive"),
    (_xml("\n<frameRate>5000</frameRate>" + ACTION.format("")), 3, "between 1 and 1000"),
    (_xml("<action>\n<speed>1</action>"), 3, "the XML is broken"),
    ('<!DOCTYPE a [<!ENTITY x "y">]><animationGenerator/>', 1, "document type or an entity"),
    (_xml("<action>&x;</action>"), 2, "the XML is broken"),
    ("<animationGenerator>" + "<a>" * 50, 1, "nested too deeply"),
]


@pytest.mark.parametrize(("text", "line", "words"), BROKEN_XML)
def test_glardon_a47_a_broken_xml_script_is_refused_with_its_line(text: str, line: int, words: str):
    with pytest.raises(FormatError) as caught:
        parse_script(text, file="walk.xml")
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"walk.xml:{line}: ")


def test_entities_that_multiply_are_refused_before_they_grow():
    layers = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
    with pytest.raises(FormatError, match="entity"):
        parse_xml_script(f'<!DOCTYPE a [<!ENTITY l0 "ha">{layers}]><animationGenerator>&l11;</animationGenerator>')


@pytest.mark.parametrize("whole", [TOML, XML])
def test_a_damaged_script_is_read_or_refused_and_never_crashes(whole: str):
    chance, lines = random.Random(5), list[int]()
    for _ in range(300):
        letters = list(whole)
        for _ in range(chance.randint(1, 6)):
            letters[chance.randrange(len(letters))] = chance.choice('<>[]="0-x{}\n&\0\N{SNOWMAN}')
        try:
            parse_script("".join(letters), file="bad")
        except FormatError as error:
            lines.append(error.line)
    assert len(lines) > 50
    assert min(lines) >= 1


def test_a_file_that_is_missing_or_not_text_is_refused(tmp_path: Path):
    with pytest.raises(MissingFileError):
        load_script(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b'name = "a"\nx = "\xff"\n')
    with pytest.raises(FormatError, match=r"bad\.toml:2: the file is not UTF-8"):
        load_script(tmp_path / "bad.toml")


def test_two_actions_without_a_transition_are_remarked():
    script = parse_script("[[action]]\nspeed = 1\nseconds = 1\n[[action]]\nspeed = 2\nseconds = 1\n", file="a.toml")
    assert script.warnings == ("a.toml:4: no transition before this action; its first 0.5 s are one",)
    assert parse_script(TOML).warnings == ()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, 0.0])
def test_a_script_made_in_code_is_checked_too(bad: float):
    with pytest.raises(InputError, match="seconds"):
        Action(bad, 1.0)
    with pytest.raises(InputError, match="seconds"):
        Transition(bad)
    with pytest.raises(InputError, match="length_m"):
        JumpAction(bad)
    with pytest.raises(InputError, match="rate_hz"):
        Script((Action(1.0, 1.0),), rate_hz=bad)


def test_a_time_line_without_end_is_refused():
    with pytest.raises(ElementError, match=f"At most {MAX_ELEMENTS}"):
        Script((Action(0.1, 1.0),) * (MAX_ELEMENTS + 1))


def test_errors_of_elements_survive_pickling():
    error = ElementError("two transitions in a row", "Make them one", 3)
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.index) == (str(error), 3)


def test_a_script_goes_to_toml_files_only(tmp_path: Path):
    with pytest.raises(InputError, match=r"\.toml"):
        save_script(parse_script(TOML), tmp_path / "a.xml")
