//! Parses Prometheus text.

use std::collections::BTreeMap;

/// One scrape.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Metrics {
    /// Reads the text exposition format; lines that are not samples are skipped.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self { samples: text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect() }
    }

    /// Sum of all samples of this name that carry at least these labels; `None` if there is no such sample.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut found =
            self.samples.iter().filter(|sample| sample.is(name, labels)).map(|sample| sample.value).peekable();
        found.peek()?;
        Some(found.sum())
    }
}

impl Sample {
    fn is(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        self.name == name && labels.iter().all(|(key, value)| self.labels.get(*key).is_some_and(|own| own == value))
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    // Label values of this daemon hold no comma and no quote.
    let labels = labels
        .trim_end_matches('}')
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.trim().to_owned(), value.trim_matches('"').to_owned()))
        .collect();
    Some(Sample { name: name.to_owned(), labels, value: value.parse().ok()? })
}
