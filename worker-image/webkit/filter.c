/* Rules by which pages block ads: compiled to a file of a store, or loaded from it. */
#include "shell.h"

/* The name of the rules in their store. */
static const char RULES[] = "ads";

static void finish(const Shell *shell, WebKitUserContentFilter *filter, const GError *error) {
  if (!filter) {
    command_answer("failed the rules: %s", error->message);
    return;
  }
  webkit_user_content_manager_add_filter(shell->content, filter);
  webkit_user_content_filter_unref(filter);
  command_answer("ok");
}

static void on_compiled(GObject *store, GAsyncResult *result, gpointer shell) {
  g_autoptr(GError) error = NULL;
  WebKitUserContentFilterStore *filters = WEBKIT_USER_CONTENT_FILTER_STORE(store);
  finish(shell, webkit_user_content_filter_store_save_finish(filters, result, &error), error);
}

static void on_loaded(GObject *store, GAsyncResult *result, gpointer shell) {
  g_autoptr(GError) error = NULL;
  WebKitUserContentFilterStore *filters = WEBKIT_USER_CONTENT_FILTER_STORE(store);
  finish(shell, webkit_user_content_filter_store_load_finish(filters, result, &error), error);
}

void filter_block(Shell *shell, const char *folder, const char *rules) {
  g_autoptr(WebKitUserContentFilterStore) store = webkit_user_content_filter_store_new(folder);
  if (!rules) {
    webkit_user_content_filter_store_load(store, RULES, NULL, on_loaded, shell);
    return;
  }
  g_autoptr(GError) error = NULL;
  char *text;
  gsize length;
  if (!g_file_get_contents(rules, &text, &length, &error)) {
    command_answer("failed the rules: %s", error->message);
    return;
  }
  g_autoptr(GBytes) source = g_bytes_new_take(text, length);
  webkit_user_content_filter_store_save(store, RULES, source, NULL, on_compiled, shell);
}
