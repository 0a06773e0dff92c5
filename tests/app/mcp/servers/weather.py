"""A server with the one tool that the demo model can call; it also starts a child process."""

import subprocess
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("weather", version="1.0")
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
Path(sys.argv[1]).write_text(str(child.pid))


@server.tool()
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"It is 18 degrees and sunny in {city}."


server.run("stdio")
