// Keeps the end of the conversation in view while an answer grows, unless the person has scrolled away from it.

import { byId } from "./dom.js";

const NEAR = 60; // Pixels from the end that count as the end.

// On wide screens the list of messages scrolls, on narrow ones the page.
const isWide = matchMedia("(min-width: 60rem)");
let isFollowing = true;

export function initFollow() {
  byId("messages").addEventListener("scroll", note, { passive: true });
  addEventListener("scroll", note, { passive: true });
}

function note() {
  if (!byId("panel-chat").hidden) isFollowing = isAtEnd();
}

function isAtEnd() {
  const list = byId("messages");
  if (isWide.matches) return list.scrollHeight - list.scrollTop - list.clientHeight < NEAR;
  return Math.abs(byId("send").getBoundingClientRect().bottom - innerHeight) < NEAR;
}

// Begins to follow the end.
export function followAgain() {
  isFollowing = true;
  follow();
}

// Scrolls to the end if the end is being followed.
export function follow() {
  if (!isFollowing || byId("panel-chat").hidden) return;
  if (isWide.matches) {
    byId("messages").scrollTop = byId("messages").scrollHeight;
  } else if (!document.activeElement?.closest(".side")) {
    byId("send").scrollIntoView({ block: "end" });
  }
}
