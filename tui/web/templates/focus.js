// Keys reach the dashboard without a click: its terminal takes the focus when the first bytes of
// the session have come, and again when the window does.
"use strict";
const focusTerminal = () => {
  const input = document.querySelector(".xterm-helper-textarea");
  if (input && document.body.classList.contains("-first-byte")) input.focus();
};
window.addEventListener("DOMContentLoaded", () => {
  const options = { attributes: true, attributeFilter: ["class"] };
  new MutationObserver(focusTerminal).observe(document.body, options);
});
window.addEventListener("focus", focusTerminal);
