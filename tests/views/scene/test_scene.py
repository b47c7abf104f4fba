import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import traces
from regard.errors import FileError, InputError, NotFiniteError, ShapeError, UnknownNameError
from regard.types import SummaryOnly, Tokens, Trace
from regard.views.encoding import from_levels
from regard.views.scene import PackedScene, build_scene, pack_scene, unpack_scene
from regard.views.scene.maps import Window
from regard.views.scene.packing import packed_thumbnails
from views import vectors

PNG = b"\x89PNG\r\n\x1a\n rest"


def near(found, weights):
    """Within what the code of weights promises."""
    found, weights = np.asarray(found), np.asarray(weights)
    shown = weights >= 0.001
    assert found[shown] == pytest.approx(weights[shown], rel=0.03)
    assert (found[~shown] < 0.00104).all()


def long_trace(size=1031):
    query = torch.randn(2, size, 3)
    return Trace.from_weights((query @ query.mT).softmax(-1), Tokens.positions(size))


def test_a_scene_of_every_source_gives_its_weights():
    trace = traces.a_trace()
    scene = build_scene(trace)
    for site in ("h.0", "h.1"):
        found = scene.weights(0, site, 4)
        assert found == pytest.approx(trace[site].weights(4).numpy(), rel=1e-5, abs=1e-8)
    assert scene.trace(0).gaps == trace.gaps


def test_a_packed_scene_comes_back_within_three_percent():
    trace = traces.a_trace()
    scene = unpack_scene(pack_scene(build_scene(trace)))
    for site in ("h.0", "h.1"):
        near(scene.weights(0, site, 4), trace[site].weights(4))
    assert scene.trace(0).streams == build_scene(trace).trace(0).streams
    assert scene.trace(0).site("h.0").produced == trace["h.0"].produced


def test_the_header_is_json_and_names_every_blob_once():
    packed = pack_scene(build_scene(vectors.a_trace(), vectors.another_trace()))
    header = json.loads(json.dumps(packed.header))
    named = [
        blob
        for trace in header["traces"]
        for site in trace["sites"]
        for blob in (*site["maps"], site["thumbs"]["blob"])
    ]
    assert sorted(named) == list(range(len(packed.blobs)))
    assert header["blobs"] == [len(blob) for blob in packed.blobs]


def test_heads_of_a_recomputable_map_are_coded_by_their_own_scores():
    size = 211
    query, key = torch.randn(1, 2, size, 5), torch.randn(1, 2, size, 5)
    seen = traces.observe(query, key, key, mask=traces.masks.causal())
    axis = traces.Axis("tokens", tuple(range(size)))
    source = traces.RecomputableWeights(query[0], key[0], seen.lse[0], seen.scoring)
    each = traces.AttentionMap("h", "decoder", axis, axis, source)
    trace = Trace({"tokens": Tokens.positions(size)}, (each,))
    packed = pack_scene(build_scene(trace))
    near(unpack_scene(packed).weights(0, "h", 1), each.weights(1))
    assert len(packed.blobs[1]) < size * size / 8


def test_a_summary_is_shown_by_its_atlas():
    site = build_scene(traces.a_trace()).trace(0).site("h.2")
    assert site.long
    assert site.maps.cells == (8, 8)
    assert site.maps.pooled(range(3, 4))[0].shape == (1, 2, 2)


def test_a_long_map_is_shown_in_cells_with_their_mean_and_largest():
    trace = long_trace()
    scene = build_scene(trace)
    site = scene.trace(0).site(None)
    assert site.maps.cells == (4, 4)
    mean, largest = (each[0] for each in site.maps.pooled(range(1, 2)))
    weights = trace["weights"].weights(1)
    assert mean.shape == (258, 258)
    assert mean[2, 7] == pytest.approx(float(weights[8:12, 28:32].mean()), rel=1e-4)
    assert largest[2, 7] == pytest.approx(float(weights[8:12, 28:32].max()), rel=1e-4)
    assert scene.more is not None


def test_a_long_map_comes_back_with_largest_weights_in_larger_cells():
    trace = long_trace()
    packed = pack_scene(build_scene(trace))
    site = packed.header["traces"][0]["sites"][0]
    assert (site["cells"], site["largest"]["cells"]) == ([4, 4], [8, 8])
    maps = unpack_scene(packed).trace(0).site(None).maps
    mean, largest = (each[0] for each in maps.pooled(range(1)))
    true = [each[0] for each in build_scene(trace).trace(0).site(None).maps.pooled(range(1))]
    near(mean, true[0])
    near(largest[::2, ::2], true[1].repeat(1, 0)[:258, :258].reshape(129, 2, 129, 2).max((1, 3)))


def test_named_windows_of_a_long_map_are_exact():
    trace = long_trace()
    scene = build_scene(trace, windows=[("weights", 1, range(100, 171), range(900, 1031))])
    packed = pack_scene(scene)
    window = packed.header["traces"][0]["sites"][0]["windows"][0]
    assert (window["head"], window["rows"], window["columns"]) == (1, [100, 171], [900, 1031])
    maps = unpack_scene(packed).trace(0).site(None).maps
    near(
        maps.window(Window(1, (100, 171), (900, 1031))), trace["weights"].weights(1)[100:171, 900:]
    )
    with pytest.raises(InputError, match="this scene holds no Window"):
        maps.window(Window(0, (0, 1), (0, 1)))


def test_the_whole_map_can_be_asked_for():
    site = build_scene(long_trace(), whole=2048).trace(0).site(None)
    assert not site.long


def test_thumbnails_are_the_largest_weights_of_their_parts():
    weights = torch.randn(1, 64, 96).softmax(-1)
    keys = Tokens.positions(96)
    packed = pack_scene(build_scene(Trace.from_weights(weights, Tokens.positions(64), keys)))
    found = from_levels(packed_thumbnails(packed, packed.header["traces"][0]["sites"][0]))
    assert found.shape == (1, 32, 32)
    near(found[0], weights.view(32, 2, 32, 3).amax((1, 3)))


def test_an_aggregate_is_a_site_with_the_axes_of_the_map_it_fits():
    eye = torch.eye(traces.ROWS, traces.COLUMNS)
    scene = build_scene(traces.a_trace(), aggregates={"rollout": eye})
    site = scene.trace(0).site("rollout")
    assert (site.kind, site.heads, site.rows.stream) == ("aggregate", 1, "target")
    assert scene.weights(0, "rollout", None) == pytest.approx(eye.numpy())


def test_badges_and_pictures_belong_to_their_head_and_stream():
    scene = build_scene(
        traces.a_trace(), badges={("h.1", 2): ["sink", "重"]}, pictures={"source": PNG}
    )
    site = unpack_scene(pack_scene(scene)).trace(0).site("h.1")
    assert site.badges[2] == ("sink", "重")
    assert site.badges[0] == ()
    assert unpack_scene(pack_scene(scene)).trace(0).pictures["source"].data == PNG


def test_packing_leaves_the_threads_of_torch_as_they_were():
    before = torch.get_num_threads()
    pack_scene(build_scene(traces.a_trace()))
    assert torch.get_num_threads() == before


def small(weights=None):
    return Trace.from_weights(torch.eye(3) if weights is None else weights, ["我", "爱", "中国"])


@pytest.mark.parametrize(
    ("extras", "error", "message"),
    [
        ({"badges": {("h.9", 0): ["x"]}}, UnknownNameError, "no attention site 'h.9'"),
        ({"windows": [("w", 0, range(1), range(1))]}, UnknownNameError, "no attention site 'w'"),
        (
            {"windows": [("weights", 1, range(1), range(1))]},
            InputError,
            "expected a window within head=1 query=3 key=3 of 'weights', got head 1",
        ),
        ({"windows": [("weights", 0, range(2, 9), range(1))]}, InputError, "a window within"),
        ({"aggregates": {"mean": torch.ones(2, 5)}}, ShapeError, "no map of this trace has"),
        ({"aggregates": {"mean": torch.ones(3)}}, ShapeError, "with the axes .query key."),
        ({"aggregates": {"weights": torch.eye(3)}}, InputError, "is named as a site is"),
        ({"pictures": {"image": PNG}}, UnknownNameError, "no stream 'image'"),
        ({"pictures": {"tokens": b"BM"}}, InputError, "as a PNG, JPEG or GIF file"),
        ({"pictures": {"tokens": "no such file"}}, FileError, "cannot read no such file"),
    ],
)
def test_extras_that_do_not_fit_are_refused_with_a_sentence(extras, error, message):
    with pytest.raises(error, match=message):
        build_scene(small(), **extras)


def test_a_trace_without_maps_is_refused_with_its_gaps():
    with pytest.raises(InputError, match=r"no maps to draw .h.3: it only adds."):
        build_scene(replace(traces.a_trace(), maps=()))


def test_a_map_without_tokens_is_refused():
    trace = Trace.from_weights(torch.zeros(1, 0, 0), [])
    with pytest.raises(InputError, match=r"has no tokens to draw, its shape is .1, 0, 0."):
        build_scene(trace)


def test_a_summary_without_an_atlas_is_refused():
    trace = traces.a_trace()
    bare = replace(trace["h.2"], atlas=None)
    assert isinstance(bare.source, SummaryOnly)
    with pytest.raises(InputError, match="keeps neither weights nor an atlas"):
        build_scene(replace(trace, maps=(bare,)))


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_are_refused(wrong):
    weights = torch.eye(3)
    weights[1, 2] = wrong
    with pytest.raises(NotFiniteError, match="weights of 'weights' hold NaN or infinity"):
        pack_scene(build_scene(small(weights)))


def test_infinities_of_both_signs_are_refused_without_a_warning():
    weights = torch.eye(3)
    weights[1] = torch.tensor([torch.inf, -torch.inf, 0.0])
    with pytest.raises(NotFiniteError, match="weights of 'weights' hold NaN or infinity"):
        build_scene(small(weights)).weights(0, "weights", 0)


def test_large_finite_weights_are_not_taken_for_infinity():
    weights = build_scene(small(torch.full((3, 3), 3e38))).weights(0, "weights", 0)
    assert (weights == np.float32(3e38)).all()


def test_negative_weights_are_refused():
    with pytest.raises(InputError, match="weights of 0 and more at 'weights', got -1"):
        pack_scene(build_scene(small(-torch.eye(3))))


def test_another_version_is_refused():
    with pytest.raises(FileError, match="expected a regard scene of version 1, got 'x' of version"):
        unpack_scene(PackedScene({"format": "x", "version": 9}, ()))


def test_an_unknown_head_trace_or_site_is_refused():
    scene = build_scene(small())
    with pytest.raises(InputError, match="no head 4 at 'weights'; it has heads 0 to 0"):
        scene.weights(0, None, 4)
    with pytest.raises(InputError, match="no trace 1; this scene has 1"):
        scene.weights(1, None, 0)
    with pytest.raises(UnknownNameError, match="no attention site 'h'"):
        scene.weights(0, "h", 0)
