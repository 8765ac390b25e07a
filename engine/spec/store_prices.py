"""What a store charges for requests and bytes, so that they can be shown as money."""

from pydantic import Field

from engine.spec.section import Section

MONTH_DAYS = 30.0


class StorePrices(Section):
    """The prices of a bucket's store. Prices that are not set are 0."""

    currency: str = Field("USD", min_length=1, max_length=8)
    """The name of the money."""
    puts_1000: float = Field(0.0, ge=0)
    """For a thousand PUT, COPY, POST or LIST requests."""
    gets_1000: float = Field(0.0, ge=0)
    """For a thousand GET or HEAD requests."""
    stored_gb_month: float = Field(0.0, ge=0)
    """For a GB (10⁹ bytes) that is stored for a month."""
    received_gb: float = Field(0.0, ge=0)
    """For a GB that is read, if the store charges for that."""

    def of_requests(self, puts: float, gets: float, received_bytes: float = 0.0) -> float:
        """What requests cost. puts: lists included. Deletions are free."""
        return (puts * self.puts_1000 + gets * self.gets_1000) / 1000 + received_bytes / 1e9 * self.received_gb

    def of_month(self, stored_bytes: float) -> float:
        """What bytes cost that are stored for a month."""
        return stored_bytes / 1e9 * self.stored_gb_month


def money(amount: float, currency: str) -> str:
    """`12.40 USD`; amounts below a hundredth are `less than 0.01 USD`."""
    return f"less than 0.01 {currency}" if 0 < amount < 0.005 else f"{amount:,.2f} {currency}"
