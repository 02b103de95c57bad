"""Several templates of one tokenizer: records with tools take the one named `tool_use`, as in transformers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packtool.errors import RecordError, UsageError
from packtool.render.chat.template import ChatTemplate, ChatText

__all__ = ["TOOL_USE", "ChatTemplates"]

TOOL_USE = "tool_use"


@dataclass(frozen=True, slots=True)
class ChatTemplates:
    """A default template and one for records with tools.

    Attributes:
        default: for records without tools.
        tool_use: for the others, or why there is none that can be used.
    """

    default: ChatTemplate
    tool_use: ChatTemplate | UsageError

    @property
    def turn_end(self) -> str:
        """The default template's."""
        return self.default.turn_end

    @property
    def uses_date(self) -> bool:
        """Whether either template calls `strftime_now`."""
        return self.default.uses_date or (isinstance(self.tool_use, ChatTemplate) and self.tool_use.uses_date)

    @property
    def protected(self) -> frozenset[str]:
        """What either template protects."""
        other = frozenset[str]() if isinstance(self.tool_use, UsageError) else self.tool_use.protected
        return self.default.protected | other

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None = None,
        *,
        find_boilerplate: bool = False,
    ) -> ChatText:
        """Render one conversation.

        Raises:
            RecordError: as ChatTemplate.render; or the record has tools and their template was refused.
        """
        return self.chosen(tools).render(messages, tools, find_boilerplate=find_boilerplate)

    def chosen(self, tools: Sequence[Any] | None) -> ChatTemplate:
        """The template for a record with these tools.

        Raises:
            RecordError: there are tools and their template was refused.
        """
        if not tools:
            return self.default
        if isinstance(self.tool_use, UsageError):
            raise RecordError(self.tool_use.message, hint=self.tool_use.hint)
        return self.tool_use
