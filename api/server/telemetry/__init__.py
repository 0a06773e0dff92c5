"""Reports requests to an OpenTelemetry collector: one span for each request, and histograms.

Off unless OpenTelemetry's own environment variables name a collector. Only then are its packages
(the extra ``telemetry``) imported. It is an observer like any other: the server does not know of
it. It must never disturb an answer, whatever the collector does.

The names are those of the GenAI semantic conventions, which are still in development, as the
package ``opentelemetry-semantic-conventions`` 0.66b2 (schema 1.44.0) has them:
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans and
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics.
"""
