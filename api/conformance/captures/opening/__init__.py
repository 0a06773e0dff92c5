"""Opens what people have saved: files of many forms, with one answer in them or many."""
