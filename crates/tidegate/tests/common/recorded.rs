//! What work has recorded as metrics.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};

/// Metrics by name and labels: `name{label=value,...}`, labels sorted.
pub(crate) type Recorded = BTreeMap<String, DebugValue>;

/// Runs `work` with a recorder of its own, and returns what it has recorded.
pub(crate) fn recorded(work: impl FnOnce()) -> Recorded {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, work);
    let metrics = snapshotter.snapshot().into_vec().into_iter();
    metrics
        .map(|(key, _, _, value)| {
            let key = key.key();
            let mut labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            labels.sort();
            (format!("{}{{{}}}", key.name(), labels.join(",")), value)
        })
        .collect()
}

/// Returns the counters of a name, by their labels.
pub(crate) fn counters<'a>(recorded: &'a Recorded, name: &str) -> Vec<(&'a str, u64)> {
    let counter = |(key, value): (&'a String, &DebugValue)| match (key.strip_prefix(name), value) {
        (Some(labels), DebugValue::Counter(count)) => Some((labels, *count)),
        (Some(_), other) => panic!("{key} is {other:?}"),
        (None, _) => None,
    };
    recorded.iter().filter_map(counter).collect()
}
