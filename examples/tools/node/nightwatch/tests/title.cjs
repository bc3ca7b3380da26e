describe('a page', () => {
  it('has a title', async (browser) => {
    await browser.navigateTo(browser.launchUrl);
    console.log('title:', await browser.getTitle());
    await browser.end();
  });
});
