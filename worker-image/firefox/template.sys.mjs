// Ends a Firefox that was started while the image is built, once it has done what each does at its first start. What it
// leaves in its profile spares the workers' browsers half of theirs.

/** Milliseconds after the last of its start-up work; its caches are complete when it quits. */
const SETTLE = 8000;

export function quitWhenStarted() {
  Services.obs.addObserver(window => {
    window.setTimeout(() => Services.startup.quit(Ci.nsIAppStartup.eForceQuit), SETTLE);
  }, "browser-delayed-startup-finished");
}
