// The same flow with Selenium's client for Node.

import assert from 'node:assert/strict';
import { Builder, By, logging, until as expect } from 'selenium-webdriver';
import chrome from 'selenium-webdriver/chrome.js';
import firefox from 'selenium-webdriver/firefox.js';
import { Session, UPLOAD, UPLOAD_NAME, checkPdf, checkPng, run, sha256, until } from './session.mjs';

await run(async (settings) => {
  const { site } = settings;
  const session = await Session.create(settings, 'webdriver/', {
    url: `${site}/`,
    headless: settings.headless,
    session_timeout: 300,
  });
  const driver = await build(settings, session);
  const results = { session_id: session.session_id, connect_url: session.connect_url };

  await driver.wait(expect.titleIs('Test site'), 15_000);
  results.form = await form(driver, site);
  await dialogs(driver, site);
  await windows(driver, site);
  results.upload = await upload(session, driver, site);
  results.download = await download(session, driver, site);
  await driver.get(`${site}/paint`);
  results.png = checkPng(Buffer.from(await driver.takeScreenshot(), 'base64'));
  // WebKit's driver has neither printing nor a log.
  if (settings.browser !== 'webkit') results.pdf = checkPdf(Buffer.from(await driver.printPage(), 'base64'));
  await cookies(driver, site);
  const consoles = { chromium: consoleLog, firefox: consoleEvents };
  results.console = await consoles[settings.browser]?.(driver, site);

  await driver.quit();
  return results;
});

function build(settings, session) {
  const builder = new Builder().usingServer(session.connect_url);
  if (settings.browser === 'firefox') {
    // With BiDi a browser answers dialogs itself, unless told to leave them to the client.
    const options = new firefox.Options().setAcceptInsecureCerts(true).enableBidi().setAlertBehavior('ignore');
    return builder.forBrowser('firefox').setFirefoxOptions(options).build();
  }
  if (settings.browser === 'webkit') {
    return builder.withCapabilities({ browserName: 'webkit', acceptInsecureCerts: true }).build();
  }
  const prefs = new logging.Preferences();
  prefs.setLevel(logging.Type.BROWSER, logging.Level.ALL);
  const options = new chrome.Options().setAcceptInsecureCerts(true);
  return builder.forBrowser('chrome').setChromeOptions(options).setLoggingPrefs(prefs).build();
}

function text(driver, selector) {
  return driver.findElement(By.css(selector)).getText();
}

function click(driver, selector) {
  return driver.findElement(By.css(selector)).click();
}

async function form(driver, site) {
  await driver.get(`${site}/form`);
  await driver.findElement(By.id('name')).sendKeys('Ada Lovelace');
  await click(driver, '#colour option[value=green]');
  await click(driver, '#agree');
  await click(driver, '#send');
  await driver.wait(expect.elementLocated(By.id('echo')), 10_000);
  const echo = JSON.parse(await text(driver, '#echo'));
  assert.deepEqual(echo, { name: 'Ada Lovelace', colour: 'green', agree: 'yes' });
  await driver.get(`${site}/button`);
  await click(driver, '#count');
  await click(driver, '#count');
  assert.equal(await text(driver, '#count'), '2');
  return echo;
}

async function dialogs(driver, site) {
  await driver.get(`${site}/dialogs`);
  await click(driver, '#confirm');
  await driver.wait(expect.alertIsPresent(), 10_000);
  await driver.switchTo().alert().accept();
  assert.equal(await text(driver, '#answer'), 'true');
}

async function windows(driver, site) {
  const home = await driver.getWindowHandle();
  const openedBy = async (open) => {
    const before = await driver.getAllWindowHandles();
    await open();
    return until('a second window', async () => {
      const now = await driver.getAllWindowHandles();
      return now.find((handle) => !before.includes(handle));
    });
  };
  await driver.get(`${site}/popup`);
  await driver.switchTo().window(await openedBy(() => click(driver, '#open')));
  await driver.wait(expect.elementLocated(By.id('child')), 10_000);
  assert.equal(await driver.executeScript('return window.opener !== null'), true);
  await driver.close();
  await driver.switchTo().window(home);

  await driver.get(`${site}/tab/1`);
  await driver.switchTo().newWindow('tab');
  await driver.get(`${site}/tab/2`);
  assert.equal(await driver.getTitle(), 'Tab 2');
  await driver.close();
  await driver.switchTo().window(home);
  assert.equal(await driver.getTitle(), 'Tab 1');
}

async function upload(session, driver, site) {
  const path = await session.putFile(UPLOAD_NAME, UPLOAD);
  await driver.get(`${site}/upload`);
  await driver.findElement(By.id('file')).sendKeys(path);
  await click(driver, '#send');
  await driver.wait(expect.elementLocated(By.id('echo')), 10_000);
  const echo = JSON.parse(await text(driver, '#echo'));
  assert.deepEqual(echo, { name: UPLOAD_NAME, size: UPLOAD.length, sha256: sha256(UPLOAD) });
  return echo;
}

async function download(session, driver, site) {
  await driver.get(`${site}/downloads`);
  await click(driver, '#file');
  const hash = sha256(await session.download('file.bin'));
  assert.equal(hash, await text(driver, '#sha256'));
  return hash;
}

async function cookies(driver, site) {
  await driver.get(`${site}/cookies/set?flavour=oat`);
  assert.equal((await driver.manage().getCookie('flavour')).value, 'oat');
  await driver.manage().addCookie({ name: 'mine', value: 'set' });
  await driver.get(`${site}/cookies`);
  assert.deepEqual(JSON.parse(await text(driver, '#echo')), { flavour: 'oat', mine: 'set' });
}

async function consoleLog(driver, site) {
  await driver.get(`${site}/console`);
  const seen = [];
  await until('the console', async () => {
    const entries = await driver.manage().logs().get(logging.Type.BROWSER);
    seen.push(...entries.map((entry) => entry.message));
    return seen.some((line) => line.includes('thrown on purpose'));
  });
  for (const part of ['"plain"', '"careful"', '"broken"']) {
    assert.ok(seen.some((line) => line.includes(part)), `${part} is in the log: ${seen.join('\n')}`);
  }
  return seen.length;
}

/** The same over WebDriver BiDi, where a driver has no log to ask for. */
async function consoleEvents(driver, site) {
  const seen = [];
  await driver.script().addConsoleMessageHandler((entry) => seen.push(entry.text));
  await driver.script().addJavaScriptErrorHandler((entry) => seen.push(entry.text));
  await driver.get(`${site}/console`);
  await until('the console', () => seen.some((line) => line.includes('thrown on purpose')));
  for (const part of ['plain', 'careful', 'broken']) {
    assert.ok(seen.some((line) => line.includes(part)), `${part} is reported: ${seen.join('\n')}`);
  }
  return seen.length;
}
