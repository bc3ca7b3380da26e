/* What pages may do without asking, which is to know where they are, and where that is. What would wait for a person at the machine is answered as a person
 * who says no. */
#include "shell.h"

static gboolean is_granted(const Shell *shell, const char *name) {
  return shell->permissions && g_strv_contains((const char *const *)shell->permissions, name);
}

static gboolean on_request(WebKitWebView *view, WebKitPermissionRequest *request, gpointer data) {
  (void)view;
  if (WEBKIT_IS_GEOLOCATION_PERMISSION_REQUEST(request) && is_granted(data, "geolocation")) {
    webkit_permission_request_allow(request);
  } else {
    webkit_permission_request_deny(request);
  }
  return TRUE;
}

static gboolean on_query(WebKitWebView *view, WebKitPermissionStateQuery *query, gpointer data) {
  (void)view;
  if (!is_granted(data, webkit_permission_state_query_get_name(query))) {
    return FALSE;
  }
  webkit_permission_state_query_finish(query, WEBKIT_PERMISSION_STATE_GRANTED);
  return TRUE;
}

void permissions_watch(Shell *shell, WebKitWebView *view) {
  g_signal_connect(view, "permission-request", G_CALLBACK(on_request), shell);
  g_signal_connect(view, "query-permission-state", G_CALLBACK(on_query), shell);
}

static gboolean on_locate(WebKitGeolocationManager *manager, gpointer data) {
  const Shell *shell = data;
  if (!shell->position) {
    return FALSE;
  }
  webkit_geolocation_manager_update_position(manager, shell->position);
  return TRUE;
}

void permissions_watch_place(Shell *shell) {
  g_signal_connect(webkit_web_context_get_geolocation_manager(shell->context), "start", G_CALLBACK(on_locate), shell);
}

void permissions_set(Shell *shell, const char *names, const char *latitude, const char *longitude, const char *accuracy) {
  g_clear_pointer(&shell->permissions, g_strfreev);
  g_clear_pointer(&shell->position, webkit_geolocation_position_free);
  if (names) {
    shell->permissions = g_strsplit(names, ",", -1);
  }
  if (latitude && longitude && accuracy) {
    shell->position = webkit_geolocation_position_new(g_ascii_strtod(latitude, NULL), g_ascii_strtod(longitude, NULL),
                                                      g_ascii_strtod(accuracy, NULL));
  }
}
