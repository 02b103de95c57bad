"""Chat templates: conversations to text with trained spans."""

from packtool.render.chat.built_in import missing_marks
from packtool.render.chat.calibrate import UNPROTECTED_MARKS
from packtool.render.chat.named import TOOL_USE, ChatTemplates
from packtool.render.chat.template import RESERVED_ARGUMENTS, ChatTemplate, ChatText
from packtool.render.chat.trace import REASONING

__all__ = [
    "REASONING",
    "RESERVED_ARGUMENTS",
    "TOOL_USE",
    "UNPROTECTED_MARKS",
    "ChatTemplate",
    "ChatTemplates",
    "ChatText",
    "missing_marks",
]
