"""A probe's report in several formats: text, JSON, HTML, JUnit, SARIF, badge."""
