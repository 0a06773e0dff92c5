"""Where preferences are changed: the pages of the dialog, and other windows. Any thread."""

# Where a preference is changed: a page of the dialog, or another window.
GENERAL, SERVER, NEW_CONVERSATIONS = "General", "Server", "New conversations"
STORAGE = "Storage"
TOOLS = "Tools"
PAGES = {
    GENERAL: "",
    SERVER: "While the server is on, the tray icon brings the window back. Quit ends everything. "
    "Port, network, key and origins are set in the server window.",
    NEW_CONVERSATIONS: "",
    TOOLS: "Servers are added and switched on in the Tool Servers window. In each conversation, "
    "Tools says which of them the model may use.",
    STORAGE: "What the model has read of your conversations is kept on this computer's disk, so "
    "that it need not be read again after a restart; the recorded tokens of their answers, so that "
    "the inspector can show them then. Only you can open these files. Requests of other apps leave "
    "nothing there.",
}
# Beside these stands how much is kept now.
KEPT_PROMPTS, KEPT_TRACES = "kept_prompts_gb", "kept_traces_mb"
SERVER_WINDOW, MODELS_WINDOW = "the Server window", "the Models window"
