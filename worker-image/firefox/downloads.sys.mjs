// Tells of downloads, wherever a client sends them.

import { Downloads } from "resource://gre/modules/Downloads.sys.mjs";

/** Calls `tell` with an event at the begin and at the end of each download. */
export async function watchDownloads(tell) {
  const ids = new Map();
  const look = download => {
    const path = download.target.path;
    if (!ids.has(download)) {
      ids.set(download, `${ids.size}`);
      tell({ event: "download", id: ids.get(download), state: "began", path });
    }
    const id = ids.get(download);
    if (download.succeeded) tell({ event: "download", id, state: "completed", path });
    else if (download.canceled || download.error) tell({ event: "download", id, state: "canceled", path });
  };
  const list = await Downloads.getList(Downloads.ALL);
  list.addView({ onDownloadAdded: look, onDownloadChanged: look });
}
