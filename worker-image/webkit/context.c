/* What all pages share: where they keep what they store, the proxy that is their only way out, their languages and their time
 * zone. */
#include "shell.h"

static void take(Shell *shell, const char *timezone) {
  WebKitWebContext *context = g_object_new(WEBKIT_TYPE_WEB_CONTEXT, "website-data-manager", shell->data,
                                           "time-zone-override", timezone, NULL);
  /* One context at a time takes drivers. */
  if (shell->context) {
    webkit_web_context_set_automation_allowed(shell->context, FALSE);
  }
  webkit_web_context_set_automation_allowed(context, TRUE);
  /* The language of a browser that nobody told another. Without it pages would see that of the container: "C". */
  static const char *const languages[] = {"en-US", NULL};
  webkit_web_context_set_preferred_languages(context, languages);
  webkit_web_context_set_spell_checking_enabled(context, FALSE);
  g_set_object(&shell->context, context);
  g_object_unref(context);
  download_watch(shell);
  window_watch_automation(shell);
  permissions_watch_place(shell);
}

void context_open(Shell *shell, const char *home, const char *egress) {
  g_autofree char *data = g_build_filename(home, "data", NULL);
  g_autofree char *cache = g_build_filename(home, "cache", NULL);
  shell->data = webkit_website_data_manager_new("base-data-directory", data, "base-cache-directory", cache, NULL);
  /* Those with an end. The others end with the browser. */
  g_autofree char *cookies = g_build_filename(home, "cookies.sqlite", NULL);
  webkit_cookie_manager_set_persistent_storage(webkit_website_data_manager_get_cookie_manager(shell->data), cookies,
                                               WEBKIT_COOKIE_PERSISTENT_STORAGE_SQLITE);
  /* The only way out, also for what a page asks of loopback. */
  WebKitNetworkProxySettings *proxy = webkit_network_proxy_settings_new(egress, NULL);
  webkit_website_data_manager_set_network_proxy_settings(shell->data, WEBKIT_NETWORK_PROXY_MODE_CUSTOM, proxy);
  webkit_network_proxy_settings_free(proxy);
  take(shell, NULL);
}

/* A context has its time zone from its making on, and so have its pages' processes. */
gboolean context_replace(Shell *shell, const char *timezone) {
  if (g_strcmp0(timezone, webkit_web_context_get_time_zone_override(shell->context)) == 0) {
    return TRUE;
  }
  take(shell, timezone);
  g_autoptr(GList) before = g_list_copy(shell->views);
  window_open(shell, NULL, FALSE);
  for (const GList *at = before; at; at = at->next) {
    gtk_widget_destroy(gtk_widget_get_toplevel(GTK_WIDGET(at->data)));
  }
  return webkit_web_context_get_time_zone_override(shell->context) != NULL;
}
