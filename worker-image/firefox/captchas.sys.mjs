// Brings the agent to the documents of pages, where its script looks for challenges.

import { idOf } from "resource://warmpool/pages.sys.mjs";

const ACTOR = "WarmpoolCaptchas";

/** Sends a message to the agent. */
let send = null;

/** The agent's scripts: what looks into documents, what speaks to the page, and whether a person solves. */
let scripts = null;

export function connectCaptchas(sender) {
  send = sender;
}

/** {documentScript, pageScript, byPerson}; from now on in every document that loads. */
export function watchCaptchas(given) {
  scripts = given;
  ChromeUtils.registerWindowActor(ACTOR, {
    parent: { esModuleURI: "resource://warmpool/captchas.sys.mjs" },
    child: { esModuleURI: "resource://warmpool/captchas-child.sys.mjs", events: { DOMDocElementInserted: {} } },
    messageManagerGroups: ["browsers"],
    matches: ["http://*/*", "https://*/*"],
    allFrames: true,
  });
}

/** {document, method, arguments}; the script's answer, or nothing once the document has gone. */
export async function askCaptchas({ document, method, arguments: given }) {
  const actor = WindowGlobalParent.getByInnerWindowId(document)?.getActor(ACTOR);
  return actor ? actor.sendQuery("ask", { method, given }) : null;
}

/** Tells the agent of a document whose script has begun. */
export class WarmpoolCaptchasParent extends JSWindowActorParent {
  receiveMessage({ name }) {
    if (name === "scripts") return scripts;
    const { browsingContext, innerWindowId } = this.manager;
    const browser = browsingContext.top.embedderElement;
    send({ event: "captchas", document: innerWindowId, page: browser ? idOf(browser) : null });
    return null;
  }
}
