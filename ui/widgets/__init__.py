"""Controls that know no conversations or models: they show plain values and emit intents."""
