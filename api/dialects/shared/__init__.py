"""The parts that dialects share: fields, answers, stops, tools. Pure; knows no web framework."""
