"""An agent of Pydantic AI uses the daemon's tools by MCP. Its model is a script: what it says follows from what the tools answered.

Prints what it saw as JSON. WARMPOOL_URL and WARMPOOL_SECRET_KEY name the daemon, SITE_URL the site.
"""

import asyncio
import json
import os
import re

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

# What the model was offered, and what it was answered, in order.
offered: set[str] = set()
answers: list[str] = []


def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Open the page, press its button by the reference in the snapshot, and read what the page then is."""
    offered.update(tool.name for tool in info.function_tools)
    answered = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    answers.extend(str(part.content) for part in answered)
    match len(answers):
        case 0:
            call = ToolCallPart("browser_navigate", {"url": os.environ["SITE_URL"] + "/agent"})
        case 1:
            brew = re.search(r'button "Brew" \[ref=(e\d+)\]', answers[-1])
            assert brew, answers
            call = ToolCallPart("browser_click", {"element": "Brew", "target": brew[1]})
        case 2:
            assert "clicked 10false" in answers[-1], answers
            call = ToolCallPart("read", {})
        case _:
            return ModelResponse(parts=[TextPart(answers[-1])])
    return ModelResponse(parts=[call])


async def main() -> None:
    key = os.environ["WARMPOOL_SECRET_KEY"]
    tools = MCPToolset(os.environ["WARMPOOL_URL"] + "/mcp", headers={"Authorization": f"Bearer {key}"})
    agent = Agent(FunctionModel(say), toolsets=[tools])
    async with agent:
        result = await agent.run("Brew a tea, and tell me what the page says.")
    print(json.dumps({"tools": len(offered), "said": result.output}))


asyncio.run(main())
