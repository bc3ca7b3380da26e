"""Drives the daemon's own MCP endpoint with the official client for Python: opens a page, acts on it, and reads it.

Prints what it saw as JSON. WARMPOOL_URL and WARMPOOL_SECRET_KEY name the daemon, SITE_URL the site.
"""

import asyncio
import json
import os
import re

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main() -> None:
    url = os.environ["WARMPOOL_URL"] + "/mcp"
    headers = {"Authorization": "Bearer " + os.environ["WARMPOOL_SECRET_KEY"]}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        # It asks for the newest version of the protocol first, which has no sessions.
        Client(streamable_http_client(url, http_client=http)) as session,
    ):
        tools = {tool.name for tool in (await session.list_tools()).tools}

        async def call(name: str, **arguments: object) -> str:
            result = await session.call_tool(name, arguments)
            text = "\n".join(part.text for part in result.content)
            assert not result.is_error, f"{name}: {text}"
            return text

        page = await call("browser_navigate", url=os.environ["SITE_URL"] + "/agent")
        brew = re.search(r'button "Brew" \[ref=(e\d+)\]', page)
        assert brew, page
        clicked = await call("browser_click", element="Brew", target=brew[1])
        assert "clicked 10false" in clicked, clicked
        data = json.loads(await call("read", extract={"schema": {"button": "button"}}))
        assert data == {"button": "Brew"}, data
        wrong = await session.call_tool("read", {"extract": {"schema": {"button": 7}}})
        assert wrong.is_error and "extract.schema" in wrong.content[0].text, wrong
        print(json.dumps({"server": session.server_info.name, "tools": sorted(tools), "read": await call("read")}))


asyncio.run(main())
