"""Controls that a person clicks or types into, and the order in which Tab visits them."""
