// Reports downloads, wherever a client sends them.

import { Downloads } from "resource://gre/modules/Downloads.sys.mjs";

/** A longer address is cut, in characters: the agent takes lines of a bounded length. */
const LONGEST = 4000;

/** Calls `tell` with an event at the begin and at the end of each download. */
export async function watchDownloads(tell) {
  const ids = new Map();
  const say = (download, state) =>
    tell({
      event: "download",
      download: ids.get(download),
      state,
      path: download.target.path,
      url: download.source.url.slice(0, LONGEST).toWellFormed(),
    });
  const look = download => {
    if (!ids.has(download)) {
      ids.set(download, `${ids.size}`);
      say(download, "began");
    }
    if (download.succeeded) say(download, "completed");
    else if (download.canceled || download.error) say(download, "canceled");
  };
  const list = await Downloads.getList(Downloads.ALL);
  list.addView({ onDownloadAdded: look, onDownloadChanged: look });
}
