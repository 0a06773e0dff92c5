"""Tells an OpenTelemetry collector of requests: one span for each, and histograms.

Off unless OpenTelemetry's own environment variables name a collector; then alone its packages,
the extra ``telemetry``, are imported. It observes the server like any other observer: the server
does not know it. It must not disturb an answer, whatever the collector does.

The names are those of the GenAI semantic conventions, which are still in development, as the
package ``opentelemetry-semantic-conventions`` 0.66b2 (schema 1.44.0) has them:
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans and
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics.
"""
