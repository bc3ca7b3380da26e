// Firefox has one WebDriver BiDi session at most, and keeps it when its client's connection is cut. Here it ends with its
// last connection, so that the next client finds it free; and a second client gets an error that says why there is none for it.

import { RemoteAgent } from "chrome://remote/content/components/RemoteAgent.sys.mjs";
import { error } from "chrome://remote/content/shared/webdriver/Errors.sys.mjs";
import { WebDriverSession } from "chrome://remote/content/shared/webdriver/Session.sys.mjs";

const TAKEN =
  "another client has this browser's one WebDriver session: Firefox serves one at a time, over WebDriver BiDi or a driver";

export function freeAbandonedSessions() {
  const bidi = RemoteAgent.webDriverBiDi;
  const { removeConnection } = WebDriverSession.prototype;
  WebDriverSession.prototype.removeConnection = function (connection) {
    removeConnection.call(this, connection);
    // A driver's session lives by its driver; connections beside it come and go.
    if (this.http) return;
    // Later, since the session may be ending just now.
    Services.tm.dispatchToMainThread(() => {
      if (bidi.session === this) bidi.deleteSession();
    });
  };

  const { createSession } = bidi;
  bidi.createSession = function (...details) {
    if (bidi.session) throw new error.SessionNotCreatedError(TAKEN);
    return createSession.apply(this, details);
  };
}
