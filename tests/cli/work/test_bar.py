from regard.cli.work.bar import progress


def test_the_parts_of_a_work_are_counted_one_after_the_other():
    with progress(7, quiet=True) as bar:
        bar.after(3)(2)
        (task,) = bar.progress.tasks
        assert (task.completed, task.total) == (5, 7)


def test_quick_work_shows_no_bar():
    with progress(7, quiet=False) as bar:
        bar.show(7)
        assert not bar.progress.live.is_started
