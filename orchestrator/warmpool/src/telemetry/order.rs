//! The order of metrics in the text for Prometheus: the recorder's own differs from scrape to scrape.

use std::collections::BTreeMap;

/// The same text with its metrics, and the series of each, in the order of their names and labels.
pub(super) fn ordered(text: &str) -> String {
    let mut families: BTreeMap<&str, (Vec<&str>, Vec<Series>)> = BTreeMap::new();
    for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let (comments, lines): (Vec<&str>, Vec<&str>) = block.lines().partition(|line| line.starts_with('#'));
        let name = comments.first().or(lines.first()).map_or("", |line| name_of(line));
        let family = families.entry(name).or_default();
        family.0.extend(comments);
        for line in lines {
            let labels = labels_of(line);
            // The lines of one series of a histogram follow one another, in the order of their buckets.
            match family.1.iter_mut().find(|series| series.labels == labels) {
                Some(series) => series.lines.push(line),
                None => family.1.push(Series { labels, lines: vec![line] }),
            }
        }
    }
    let mut ordered = String::with_capacity(text.len());
    for (comments, mut series) in families.into_values() {
        series.sort_by(|a, b| a.labels.cmp(b.labels));
        for line in comments.into_iter().chain(series.into_iter().flat_map(|series| series.lines)) {
            ordered.push_str(line);
            ordered.push('\n');
        }
        ordered.push('\n');
    }
    ordered
}

struct Series<'a> {
    labels: &'a str,
    lines: Vec<&'a str>,
}

fn name_of(line: &str) -> &str {
    let line = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")).unwrap_or(line);
    line.split([' ', '{']).next().unwrap_or_default()
}

/// What stands between the braces, without the bucket's border, which is the last label.
fn labels_of(line: &str) -> &str {
    let labels = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(labels, _)| labels);
    // A whole label: `table="` ends like `le="`. Quotes in values are escaped, so no value looks like one.
    let is_border = |label: &str| label.starts_with("le=\"") || label.starts_with("quantile=\"");
    let mut starts = std::iter::once(0).chain(labels.match_indices(',').map(|(at, _)| at + 1));
    starts.find(|at| is_border(&labels[*at..])).map_or(labels, |at| labels[..at].trim_end_matches(','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_and_series_are_in_the_order_of_their_names() {
        let text = "# HELP b B\n# TYPE b counter\nb{x=\"2\"} 1\nb{x=\"1\"} 2\n\n\
            # HELP a A\n# TYPE a histogram\na_bucket{k=\"z\",le=\"1\"} 1\na_bucket{k=\"z\",le=\"+Inf\"} 2\na_sum{k=\"z\"} 3\n\
            a_bucket{k=\"y\",le=\"1\"} 0\na_bucket{k=\"y\",le=\"+Inf\"} 0\na_sum{k=\"y\"} 0\n\n";
        let expected = "# HELP a A\n# TYPE a histogram\na_bucket{k=\"y\",le=\"1\"} 0\na_bucket{k=\"y\",le=\"+Inf\"} 0\n\
            a_sum{k=\"y\"} 0\na_bucket{k=\"z\",le=\"1\"} 1\na_bucket{k=\"z\",le=\"+Inf\"} 2\na_sum{k=\"z\"} 3\n\n\
            # HELP b B\n# TYPE b counter\nb{x=\"1\"} 2\nb{x=\"2\"} 1\n\n";
        assert_eq!(ordered(text), expected);
    }

    #[test]
    fn a_label_that_ends_like_a_border_is_a_label() {
        let text = "# TYPE rows gauge\nrows{table=\"b,le\"} 1\nrows{table=\"a\"} 2\n\n";
        assert_eq!(ordered(text), "# TYPE rows gauge\nrows{table=\"a\"} 2\nrows{table=\"b,le\"} 1\n\n");
    }
}
