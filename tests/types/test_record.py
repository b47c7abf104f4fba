import json

from regard.types.record import trace_record
from traces import a_trace


def test_the_record_of_a_trace_is_json_without_weights():
    trace = a_trace()
    record = json.loads(json.dumps(trace_record(trace)))
    assert [each["site"] for each in record["maps"]] == [each.site for each in trace.maps]
    assert record["maps"][0]["rows"]["count"] == trace.maps[0].shape[1]
    assert list(record["streams"]) == list(trace.streams)
    assert record["gaps"] == [{"site": gap.site, "reason": gap.reason} for gap in trace.gaps]
