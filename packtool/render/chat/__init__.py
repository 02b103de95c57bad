"""Chat templates: conversations to text with trained spans."""

from packtool.render.chat.built_in import missing_marks
from packtool.render.chat.calibrate import UNPROTECTED_MARKS
from packtool.render.chat.template import ChatTemplate, ChatText

__all__ = ["UNPROTECTED_MARKS", "ChatTemplate", "ChatText", "missing_marks"]
