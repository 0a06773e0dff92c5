"""What dialects have in common: fields, answers, stops, tools. Pure; knows no web framework."""
