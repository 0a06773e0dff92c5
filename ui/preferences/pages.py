"""Where preferences are changed: the pages of the dialog, and other windows. Any thread."""

# Where a preference is changed: a page of the dialog, or another window.
GENERAL, SERVER, NEW_CONVERSATIONS = "General", "Server", "New Conversations"
STORAGE = "Storage"
TOOLS = "Tools"
PAGES = {
    GENERAL: "",
    SERVER: "While the server is on, the tray icon brings the window back. Quit ends everything. "
    "Port, network, key and origins are set in the server window.",
    NEW_CONVERSATIONS: "",
    TOOLS: "Servers are added and switched on in the Tool Servers window. In each conversation, "
    "Tools says which of them the model may use.",
    STORAGE: "The prompts that the model has read for your conversations are kept on this "
    "computer’s disk, so that it does not read them again after a restart. The recorded tokens of "
    "the answers are kept for the inspector. Only you can open these files. Nothing is kept of the "
    "requests of other apps.",
}
# The dialog shows beside these how much is kept now.
KEPT_PROMPTS, KEPT_TRACES = "kept_prompts_gb", "kept_traces_mb"
SERVER_WINDOW, MODELS_WINDOW = "the Server window", "the Models window"
