// Blocks ads: asks the agent about each request of a page, and has each document hide what the agent says.
//
// Channels are seen in the parent process, whatever process, context or worker asked. A client's own interception comes
// first: a request that it holds waits for it, and one that it answers is left alone. Documents are reached by an actor.

import { setTimeout } from "resource://gre/modules/Timer.sys.mjs";

const lazy = {};
ChromeUtils.defineESModuleGetters(lazy, {
  NetworkRequest: "chrome://remote/content/shared/NetworkRequest.sys.mjs",
});

const ACTOR = "WarmpoolAds";

/** A longer address is not judged: the agent takes lines of a bounded length. */
const LONGEST = 65536;

/** A longer name or selector is left out, and so are more of them in one question. */
const LONGEST_NAME = 2000;
const MOST = 20000;

const { TYPE_DOCUMENT } = Ci.nsIContentPolicy;

/** What rules call a type of request. */
const KINDS = {
  [Ci.nsIContentPolicy.TYPE_SCRIPT]: "script",
  [Ci.nsIContentPolicy.TYPE_IMAGE]: "image",
  [Ci.nsIContentPolicy.TYPE_IMAGESET]: "image",
  [Ci.nsIContentPolicy.TYPE_STYLESHEET]: "stylesheet",
  [Ci.nsIContentPolicy.TYPE_OBJECT]: "object",
  [Ci.nsIContentPolicy.TYPE_SUBDOCUMENT]: "sub_frame",
  [Ci.nsIContentPolicy.TYPE_PING]: "ping",
  [Ci.nsIContentPolicy.TYPE_BEACON]: "ping",
  [Ci.nsIContentPolicy.TYPE_XMLHTTPREQUEST]: "xmlhttprequest",
  [Ci.nsIContentPolicy.TYPE_FETCH]: "xmlhttprequest",
  [Ci.nsIContentPolicy.TYPE_FONT]: "font",
  [Ci.nsIContentPolicy.TYPE_MEDIA]: "media",
  [Ci.nsIContentPolicy.TYPE_WEBSOCKET]: "websocket",
  [Ci.nsIContentPolicy.TYPE_CSP_REPORT]: "csp_report",
};

/** Sends a message to the agent. */
let send = null;

/** Channels whose response a client has given. */
const answered = new WeakSet();

/** Milliseconds between two looks whether a client has let a request go. */
const LOOK = 10;

/** Who waits for the agent's answers, by the numbers of the questions. */
const waiting = new Map();
let questions = 0;

/** Called with the way to the agent before anything else. */
export function connectAds(sender) {
  send = sender;
}

/** Asks for rules from now on, until the browser ends. */
export function blockAds() {
  const { prototype } = lazy.NetworkRequest;
  const { setResponseOverride } = prototype;
  prototype.setResponseOverride = function (response) {
    answered.add(this.wrappedChannel);
    return setResponseOverride.call(this, response);
  };
  Services.obs.addObserver(judge, "http-on-before-connect");
  ChromeUtils.registerWindowActor(ACTOR, {
    parent: { esModuleURI: "resource://warmpool/ads.sys.mjs" },
    child: { esModuleURI: "resource://warmpool/ads-child.sys.mjs", events: { DOMDocElementInserted: {} } },
    messageManagerGroups: ["browsers"],
    matches: ["http://*/*", "https://*/*"],
    allFrames: true,
  });
}

/** The agent's answer to a question. */
export function answerAds({ question, answer }) {
  waiting.get(question)?.(answer);
  waiting.delete(question);
}

function ask(about) {
  const question = (questions += 1);
  send({ event: "ads", question, about });
  return new Promise(resolve => waiting.set(question, resolve));
}

/** Holds a request of a page until the agent has judged it. */
async function judge(subject) {
  const channel = subject.QueryInterface(Ci.nsIHttpChannel);
  const { loadInfo } = channel;
  const type = loadInfo.externalContentPolicyType;
  const principal = loadInfo.loadingPrincipal ?? loadInfo.triggeringPrincipal;
  // The documents of tabs are never ads, and what the browser itself asks for is not the pages' concern.
  if (type === TYPE_DOCUMENT || !principal || principal.isSystemPrincipal) return;
  const url = channel.URI.spec;
  if (url.length > LONGEST) return;
  const from = principal.isNullPrincipal ? principal.precursorPrincipal : principal;
  const source = from?.asciiSpec ?? "";
  channel.suspend();
  const blocked = await ask({
    url,
    source: source.length > LONGEST ? "" : source,
    kind: KINDS[type] ?? "other",
    method: channel.requestMethod,
  });
  if (blocked) {
    const wrapper = ChannelWrapper.get(channel);
    while (wrapper.suspended && Components.isSuccessCode(channel.status)) {
      await new Promise(resolve => setTimeout(resolve, LOOK));
    }
    if (!answered.has(wrapper)) channel.cancel(Cr.NS_ERROR_BLOCKED_BY_POLICY);
  }
  channel.resume();
}

/** Passes on what documents ask. The process of a page is not trusted with the form. */
export class WarmpoolAdsParent extends JSWindowActorParent {
  receiveMessage({ data }) {
    const { page, names, exceptions } = data ?? {};
    if (typeof page === "string") return page.length > LONGEST ? { css: "" } : ask({ page });
    const classes = texts(names?.classes);
    return ask({ names: { classes, ids: texts(names?.ids) }, exceptions: texts(exceptions) });
  }
}

function texts(list) {
  const isText = text => typeof text === "string" && text.length <= LONGEST_NAME;
  return Array.isArray(list) ? list.slice(0, MOST).filter(isText) : [];
}
