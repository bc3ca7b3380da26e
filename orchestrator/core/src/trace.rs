//! What spans of traces have in common wherever they begin. `telemetry` sends them.

use opentelemetry::Context;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The target of spans that traces have. The log leaves them out.
pub const TRACES: &str = "warmpool::traces";

/// The trace and span of a request, for work that outlives it.
#[derive(Debug, Clone, Default)]
pub struct TraceContext(Context);

impl TraceContext {
    /// That of the current span.
    pub fn current() -> Self {
        Self(Span::current().context())
    }

    /// Makes `span` a child of it.
    pub fn adopt(&self, span: &Span) {
        if !span.is_disabled() {
            // Fails where nothing is traced.
            let _ = span.set_parent(self.0.clone());
        }
    }
}
