"""Tests a graph of LangGraph whose model calls tools."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"It is clear in {city}."


@pytest.fixture(params=[False, True], ids=["chat", "responses"])
def graph(server, model, request):
    """Calls the model, then tools as long as the answer has calls. The first answer must call a tool."""
    options = {"temperature": 0, "max_tokens": 40, "max_retries": 0, "use_responses_api": request.param}
    chat = ChatOpenAI(**server, model=model, **options)

    def answer(state):
        called = any(isinstance(message, ToolMessage) for message in state["messages"])
        bound = chat.bind_tools([get_weather], tool_choice="none" if called else "required")
        return {"messages": [bound.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_node("tools", ToolNode([get_weather]))
    graph.add_edge(START, "answer")
    graph.add_conditional_edges("answer", tools_condition)
    graph.add_edge("tools", "answer")
    return graph.compile()


QUESTION = {"messages": [HumanMessage("How is the weather in Oslo?")]}


def test_from_the_call_to_the_final_answer(graph):
    question, call, *results, last = graph.invoke(QUESTION)["messages"]
    assert isinstance(call, AIMessage) and isinstance(last, AIMessage)
    assert [result.tool_call_id for result in results] == [found["id"] for found in call.tool_calls]
    assert [result.content for result in results] == [
        f"It is clear in {found['args']['city']}." for found in call.tool_calls
    ]
    assert last.text and not last.tool_calls


def test_tokens_are_streamed_out_of_the_graph(graph):
    whole = graph.invoke(QUESTION)["messages"][-1]
    messages = [message for message, _ in graph.stream(QUESTION, stream_mode="messages")]
    results = [place for place, message in enumerate(messages) if isinstance(message, ToolMessage)]
    assert results and results[0] > 1
    pieces = messages[results[-1] + 1 :]
    assert len(pieces) > 1
    assert "".join(piece.text for piece in pieces) == whole.text
