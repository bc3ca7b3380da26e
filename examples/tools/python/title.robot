*** Comments ***
Robot Framework on Warmpool: python -m robot title.robot, with WARMPOOL_URL, WARMPOOL_SECRET_KEY and PAGE in the environment.

*** Settings ***
Library           SeleniumLibrary

*** Test Cases ***
A Page Has A Title
    ${address} =    Evaluate    $WARMPOOL_URL.replace("://", "://" + $WARMPOOL_SECRET_KEY + "@")
    Open Browser    ${PAGE}    chrome    remote_url=${address}    options=add_argument("--headless")
    ${title} =      Get Title
    Log To Console    title: ${title}
    [Teardown]    Close Browser

*** Variables ***
${PAGE}                   %{PAGE}
${WARMPOOL_URL}           %{WARMPOOL_URL}
${WARMPOOL_SECRET_KEY}    %{WARMPOOL_SECRET_KEY}
