from diagnosis.faults import diagnosed, rank


def test_a_healthy_model_has_no_alarm():
    assert [each for each in diagnosed() if each.severity != "observation"] == []


def test_every_finding_has_its_number_and_limit_in_both_languages():
    for each in diagnosed():
        for language in ("en", "zh"):
            assert any(sign.isdigit() for sign in each.sentence(language))
            assert "{" not in "".join(vars(each.text(language)).values())


def test_findings_come_by_severity():
    ranks = [rank(each.severity) for each in diagnosed()]
    assert ranks == sorted(ranks, reverse=True)
